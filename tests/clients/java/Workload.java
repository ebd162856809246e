import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The workload of ../workload.md through Java's kafka-clients; one source for 3.9 and 4.x. */
public final class Workload {
    private static final int RECORDS_PER_CODEC = 2_000;
    private static final long START_MS = 1_700_000_000_000L;
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final long[] SEEK_MS = {START_MS, START_MS + 4321, START_MS + 9999, START_MS + 10_000};

    private final String bootstrap;
    private final String topic;
    private final ConfigResource resource;

    private Workload(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    public static void main(String[] arguments) throws Exception {
        Workload workload = new Workload(arguments[1], arguments[2]);
        String fields = switch (arguments[0]) {
            case "write" -> workload.write();
            case "read" -> workload.read();
            case "change" -> workload.change();
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        System.out.printf("{\"version\": \"%s\", %s}%n", AppInfoParser.getVersion(), fields);
    }

    /** Creates a topic. If its broker dies before it answers, the client tries again and finds the topic. */
    private static void create(Admin admin, NewTopic created) throws Exception {
        try {
            admin.createTopics(List.of(created)).all().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw error;
            }
        }
    }

    private String write() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            NewTopic created = new NewTopic(topic, 3, (short) -1).configs(Map.of("retention.ms", "-1"));
            create(admin, created);
            int partitions = eventually(() -> partitionCount(admin), count -> count == 3);
            String config = configs(admin, "retention.ms", "cleanup.policy");
            int produced = 0;
            for (int codec = 0; codec < CODECS.length; codec++) {
                produced += produce(codec);
            }
            return String.format("\"partitions\": %d, \"config\": %s, \"produced\": %d", partitions, config, produced);
        }
    }

    private int produce(int codec) throws Exception {
        Properties settings = settings();
        settings.put("compression.type", CODECS[codec]);
        settings.put("acks", "all");
        settings.put("linger.ms", "20");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = codec * RECORDS_PER_CODEC; i < (codec + 1) * RECORDS_PER_CODEC; i++) {
                sent.add(producer.send(
                        new ProducerRecord<>(topic, i % 3, START_MS + i, key(i), value(i), headers(i))));
            }
        }
        for (Future<RecordMetadata> future : sent) {
            future.get();
        }
        return sent.size();
    }

    private static byte[] key(int i) {
        return switch (i % 10) {
            case 3 -> null;
            case 9 -> new byte[0];
            default -> text("key-" + i);
        };
    }

    private static byte[] value(int i) {
        if (i % 10 == 5) {
            return null;
        }
        byte[] value = new byte[i % 10 == 7 ? 0 : i * 37 % 300];
        for (int j = 0; j < value.length; j++) {
            value[j] = (byte) (31 * i + 7 * j);
        }
        return value;
    }

    private static List<Header> headers(int i) {
        return switch (i % 5) {
            case 0 -> List.of();
            case 1 -> List.of(new RecordHeader("trace", text(String.valueOf(i))));
            case 2 -> List.of(new RecordHeader("empty", new byte[0]), new RecordHeader("null", (byte[]) null));
            case 3 -> List.of(new RecordHeader("twin", text("1")), new RecordHeader("twin", text("2")));
            default -> List.of(
                    new RecordHeader("binary", new byte[] {0, (byte) 255, (byte) i}),
                    new RecordHeader("ключ", text("значение")));
        };
    }

    private String read() throws Exception {
        Properties settings = settings();
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", "false");
        List<TopicPartition> partitions = List.of(partition(0), partition(1), partition(2));
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                consumer.poll(Duration.ofSeconds(10)).forEach(records::add);
            }
            records.sort(Comparator.<ConsumerRecord<byte[], byte[]>>comparingInt(ConsumerRecord::partition)
                    .thenComparingLong(ConsumerRecord::offset));
            return String.format(
                    "\"count\": %d, \"digest\": \"%s\", \"seek\": %s",
                    records.size(), digest(records), seek(consumer, partitions));
        }
    }

    private String seek(KafkaConsumer<?, ?> consumer, List<TopicPartition> partitions) {
        Map<String, List<Long>> offsets = new TreeMap<>();
        for (long time : SEEK_MS) {
            Map<TopicPartition, Long> wanted = new java.util.HashMap<>();
            partitions.forEach(p -> wanted.put(p, time));
            Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(wanted);
            for (TopicPartition p : partitions) {
                OffsetAndTimestamp where = found.get(p);
                offsets.computeIfAbsent("\"" + p.partition() + "\"", name -> new ArrayList<>())
                        .add(where == null ? -1 : where.offset());
            }
        }
        return offsets.toString().replace("=", ": ");
    }

    private static String digest(List<ConsumerRecord<byte[], byte[]>> records) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        for (ConsumerRecord<byte[], byte[]> record : records) {
            sha.update(ByteBuffer.allocate(20)
                    .putInt(record.partition())
                    .putLong(record.offset())
                    .putLong(record.timestamp())
                    .array());
            sized(sha, record.key());
            sized(sha, record.value());
            Header[] headers = record.headers().toArray();
            sha.update(number(headers.length));
            for (Header header : headers) {
                sized(sha, text(header.key()));
                sized(sha, header.value());
            }
        }
        return HexFormat.of().formatHex(sha.digest());
    }

    private static void sized(MessageDigest sha, byte[] data) {
        sha.update(number(data == null ? -1 : data.length));
        if (data != null) {
            sha.update(data);
        }
    }

    private static byte[] number(int number) {
        return ByteBuffer.allocate(4).putInt(number).array();
    }

    private String change() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            Collection<AlterConfigOp> alter = Collections.singleton(
                    new AlterConfigOp(new ConfigEntry("max.message.bytes", "1234567"), AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(resource, alter)).all().get();
            String config = eventually(
                    () -> configs(admin, "retention.ms", "max.message.bytes"), found -> found.contains("1234567"));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            int partitions = eventually(() -> partitionCount(admin), count -> count == 5);
            admin.deleteRecords(Map.of(partition(0), RecordsToDelete.beforeOffset(100))).all().get();
            long earliest = admin.listOffsets(Map.of(partition(0), OffsetSpec.earliest()))
                    .partitionResult(partition(0)).get().offset();
            admin.deleteTopics(List.of(topic)).all().get();
            boolean gone = eventually(() -> !admin.listTopics().names().get().contains(topic), found -> found);
            return String.format(
                    "\"config\": %s, \"partitions\": %d, \"earliest\": %d, \"gone\": %b",
                    config, partitions, earliest, gone);
        }
    }

    private int partitionCount(Admin admin) throws Exception {
        return (int) admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().stream()
                .filter(partition -> partition.leader() != null)
                .count();
    }

    private String configs(Admin admin, String... names) throws Exception {
        Map<String, String> found = new TreeMap<>();
        for (String name : names) {
            String value = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
            found.put("\"" + name + "\"", "\"" + value + "\"");
        }
        return found.toString().replace("=", ": ");
    }

    /** A change that the controller has confirmed reaches a broker's own view a moment later. */
    private static <T> T eventually(Callable<T> look, Predicate<T> wanted) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(15).toNanos();
        while (true) {
            try {
                T seen = look.call();
                if (wanted.test(seen) || System.nanoTime() > deadline) {
                    return seen;
                }
            } catch (java.util.concurrent.ExecutionException notYet) {
                if (System.nanoTime() > deadline) {
                    throw notYet;
                }
            }
            Thread.sleep(20);
        }
    }

    private TopicPartition partition(int number) {
        return new TopicPartition(topic, number);
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
