import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A secured client through Java's kafka-clients; ../security/login.md says what it does. */
public final class Login {
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\": (?:\"([^\"]*)\"|(\\w+))");

    private Login() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> access = read(Path.of(arguments[0]));
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        try {
            write(access, topic, count, Long.parseLong(arguments[3]));
            List<String> values = take(access, topic, count);
            System.out.println("{\"values\": [" + String.join(", ", values) + "]}");
        } catch (AuthenticationException refused) {
            System.out.println("{\"refused\": \"" + describe(refused) + "\"}");
        }
    }

    private static void write(Map<String, String> access, String topic, int count, long pauseMs)
            throws InterruptedException {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings(access), new StringSerializer(), new StringSerializer())) {
            for (int index = 0; index < count; index++) {
                try {
                    producer.send(new ProducerRecord<>(topic, Integer.toString(index))).get();
                } catch (ExecutionException failed) {
                    throw failed.getCause() instanceof KafkaException known ? known : new KafkaException(failed);
                }
                Thread.sleep(pauseMs);
            }
        }
    }

    private static List<String> take(Map<String, String> access, String topic, int count) {
        Properties settings = settings(access);
        settings.put("group.id", topic + "-group");
        settings.put("auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (values.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add("\"" + record.value() + "\"");
                }
            }
            consumer.commitSync();
        }
        return values;
    }

    private static Properties settings(Map<String, String> access) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", access.get("bootstrap"));
        settings.put("client.id", access.get("client_id"));
        settings.put("security.protocol", access.get("protocol"));
        settings.put("reconnect.backoff.max.ms", "200");
        if (access.get("protocol").endsWith("SSL")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", access.get("trust"));
        }
        if (!access.get("both").isEmpty()) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", access.get("both"));
        }
        if (access.get("protocol").startsWith("SASL")) {
            settings.put("sasl.mechanism", access.get("mechanism"));
            settings.put("sasl.jaas.config", jaas(access));
            if (access.containsKey("token_file")) {
                String url = Path.of(access.get("token_file")).toUri().toString();
                // Kafka 4 reads only what it is allowed to.
                System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
                System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", access.get("token_file"));
                settings.put("sasl.oauthbearer.token.endpoint.url", url);
                settings.put("sasl.login.callback.handler.class",
                        MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
            }
        }
        return settings;
    }

    private static String jaas(Map<String, String> access) {
        String mechanism = access.get("mechanism");
        if (mechanism.equals("OAUTHBEARER")) {
            String claim = access.containsKey("token_file")
                    ? "" : " unsecuredLoginStringClaim_sub=\"" + access.get("user") + "\"";
            return MODULES + "oauthbearer.OAuthBearerLoginModule required" + claim + ";";
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        String token = access.get("is_delegation_token").equals("true") ? " tokenauth=\"true\"" : "";
        return MODULES + module + " required username=\"" + access.get("user") + "\" password=\""
                + access.get("password") + "\"" + token + ";";
    }

    private static Map<String, String> read(Path file) throws IOException {
        Map<String, String> fields = new TreeMap<>();
        Matcher matcher = FIELD.matcher(Files.readString(file));
        while (matcher.find()) {
            fields.put(matcher.group(1), matcher.group(2) == null ? matcher.group(3) : matcher.group(2));
        }
        return fields;
    }

    private static String describe(Throwable error) {
        String text = error.getClass().getSimpleName() + ": " + error.getMessage();
        String cause = error.getCause() == null ? "" : "; " + error.getCause();
        return (text + cause).replace('\\', '/').replace('"', '\'').replace('\n', ' ');
    }
}
