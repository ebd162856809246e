import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group through Java's kafka-clients; ../member.md says what it does. */
public final class Member {
    private Member() {
    }

    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                settings(arguments), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    out.print(record.partition() + " " + record.offset() + "\n");
                }
                out.flush();
                try {
                    consumer.commitSync();
                } catch (CommitFailedException | RetriableException refused) {
                    System.err.println(refused);
                }
            }
        }
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "100");
        boolean isClassic = arguments[3].equals("classic");
        boolean isRange = arguments[4].equals("range");
        if (isClassic) {
            int sessionMs = Integer.parseInt(arguments[5]);
            settings.put("session.timeout.ms", Integer.toString(sessionMs));
            settings.put("heartbeat.interval.ms", Integer.toString(sessionMs / 4));
            if (isRange) {
                settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
            }
        } else {
            settings.put("group.protocol", "consumer");
            if (isRange) {
                settings.put("group.remote.assignor", "range");
            }
        }
        return settings;
    }
}
