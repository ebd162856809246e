import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A copier through Java's kafka-clients; ../copier.md says what it does. */
public final class Copier {
    private static final int ABORT_EVERY = 3;
    private static final int GIVE_UP = 3;

    private final String source;
    private final String target;
    private final String name;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;

    private Copier(String[] arguments) {
        source = arguments[1];
        target = arguments[2];
        name = arguments[5];
        producer = new KafkaProducer<>(
                producerSettings(arguments), new ByteArraySerializer(), new ByteArraySerializer());
        consumer = new KafkaConsumer<>(
                consumerSettings(arguments), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) {
        try {
            new Copier(arguments).run();
        } catch (KafkaException error) {
            System.err.println(error);
            System.err.flush();
            Runtime.getRuntime().halt(GIVE_UP);
        }
    }

    private void run() {
        say("init");
        producer.initTransactions();
        say("ready");
        consumer.subscribe(List.of(source));
        for (int number = 1;; number++) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
            while (records.isEmpty()) {
                records = consumer.poll(Duration.ofMillis(200));
            }
            copy(records, number);
        }
    }

    private void copy(ConsumerRecords<byte[], byte[]> records, int number) {
        say("begin " + number);
        producer.beginTransaction();
        try {
            send(records, number);
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            throw fenced;
        } catch (KafkaException error) {
            System.err.println(error);
            abort(number);
            return;
        }
        if (number % ABORT_EVERY == 0) {
            abort(number);
            return;
        }
        say("commit " + number);
        try {
            producer.commitTransaction();
        } catch (ProducerFencedException | InvalidProducerEpochException | TimeoutException unknown) {
            throw unknown;
        } catch (KafkaException error) {
            System.err.println(error);
            abort(number);
            return;
        }
        say("committed " + number);
    }

    private void send(ConsumerRecords<byte[], byte[]> records, int number) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new TreeMap<>((one, other) -> one.partition() - other.partition());
        StringBuilder said = new StringBuilder("offsets " + number);
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String value = new String(record.value(), StandardCharsets.UTF_8).toUpperCase(Locale.ROOT)
                    + " " + record.partition() + " " + record.offset() + " " + name + " " + number;
            producer.send(new ProducerRecord<>(
                    target, record.partition(), record.key(), value.getBytes(StandardCharsets.UTF_8)));
            offsets.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        offsets.forEach((place, end) -> said.append(" " + place.partition() + ":" + end.offset()));
        say(said.toString());
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.flush();
    }

    private void abort(int number) {
        say("abort " + number);
        producer.abortTransaction();
        say("aborted " + number);
        rewind();
    }

    /** Read again what was not committed. */
    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition place : consumer.assignment()) {
            OffsetAndMetadata found = committed.get(place);
            if (found == null) {
                consumer.seekToBeginning(List.of(place));
            } else {
                consumer.seek(place, found.offset());
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.print(ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()) + " " + line + "\n");
        System.out.flush();
    }

    private static Properties producerSettings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[4]);
        settings.put("transaction.timeout.ms", "10000");
        return settings;
    }

    private static Properties consumerSettings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[3]);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "100");
        settings.put("max.poll.records", "50");
        int sessionMs = Integer.parseInt(arguments[7]);
        settings.put("session.timeout.ms", Integer.toString(sessionMs));
        settings.put("heartbeat.interval.ms", Integer.toString(sessionMs / 4));
        return settings;
    }
}
