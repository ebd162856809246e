import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * A producer, and a member of a group, through Java's kafka-clients, told line by line what to do: `version`,
 * `open CONFIG=VALUE…`, `send TOPIC NUMBER SIZE TIMESTAMP` (without an answer), `flush`, `close`, `join TOPIC
 * CONFIG=VALUE…`, `commit TOPIC OFFSET`, `committed TOPIC`, `leave`. Each answer is a line that begins with the command
 * or with `error`; that of `close` follows the outcomes of all records, `acknowledged NUMBER OFFSET` or `failed NUMBER
 * ERROR`. The end of the input ends the program.
 */
public final class Sender {
    private final Queue<String> outcomes = new ConcurrentLinkedQueue<>();
    private KafkaProducer<byte[], byte[]> producer;
    private KafkaConsumer<byte[], byte[]> consumer;

    private Sender() {
    }

    public static void main(String[] arguments) throws IOException {
        Sender sender = new Sender();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = sender.obey(line.split(" "));
            } catch (KafkaException error) {
                answer = "error " + oneLine(error);
            }
            if (!answer.isEmpty()) {
                System.out.print(answer + "\n");
                System.out.flush();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private String obey(String[] words) {
        return switch (words[0]) {
            case "version" -> "version " + AppInfoParser.getVersion();
            case "open" -> open(settings(words, 1));
            case "send" -> send(words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]));
            case "flush" -> flush();
            case "close" -> close();
            case "join" -> join(words[1], settings(words, 2));
            case "commit" -> commit(new TopicPartition(words[1], 0), Long.parseLong(words[2]));
            case "committed" -> committed(new TopicPartition(words[1], 0));
            case "leave" -> leave();
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    private String open(Properties settings) {
        outcomes.clear();
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        return "open";
    }

    private String send(String topic, String number, int size, long timestampMs) {
        byte[] value = ("0".repeat(Math.max(0, size - number.length())) + number).getBytes(StandardCharsets.US_ASCII);
        try {
            producer.send(new ProducerRecord<>(topic, 0, timestampMs, null, value), (metadata, error) ->
                    outcomes.add(error == null
                            ? "acknowledged " + number + " " + metadata.offset()
                            : "failed " + number + " " + oneLine(error)));
        } catch (KafkaException error) {
            outcomes.add("failed " + number + " " + oneLine(error));
        }
        return "";
    }

    private String flush() {
        producer.flush();
        return "flush";
    }

    private String close() {
        producer.close();
        outcomes.add("close");
        return String.join("\n", outcomes);
    }

    private String join(String topic, Properties settings) {
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
        while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
            continue;
        }
        return "join";
    }

    private String commit(TopicPartition place, long offset) {
        consumer.commitSync(Map.of(place, new OffsetAndMetadata(offset)));
        return "commit";
    }

    private String committed(TopicPartition place) {
        return "committed " + consumer.committed(Set.of(place)).get(place).offset();
    }

    private String leave() {
        consumer.close();
        return "leave";
    }

    private static Properties settings(String[] words, int start) {
        Properties settings = new Properties();
        for (String word : Arrays.copyOfRange(words, start, words.length)) {
            String[] parts = word.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        return settings;
    }

    private static String oneLine(Exception error) {
        return error.toString().replace('\n', ' ');
    }
}
