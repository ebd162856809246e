import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import io.confluent.connect.avro.AvroConverter;
import io.confluent.connect.json.JsonSchemaConverter;
import io.confluent.connect.protobuf.ProtobufConverter;
import io.confluent.kafka.schemaregistry.ParsedSchema;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.RestService;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaTags;
import io.confluent.kafka.schemaregistry.client.rest.entities.requests.TagSchemaRequest;
import io.confluent.kafka.schemaregistry.json.JsonSchema;
import io.confluent.kafka.schemaregistry.json.JsonSchemaProvider;
import io.confluent.kafka.schemaregistry.json.JsonSchemaUtils;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchemaProvider;
import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import io.confluent.kafka.serializers.json.KafkaJsonSchemaDeserializer;
import io.confluent.kafka.serializers.json.KafkaJsonSchemaSerializer;
import io.confluent.kafka.serializers.protobuf.KafkaProtobufDeserializer;
import io.confluent.kafka.serializers.protobuf.KafkaProtobufSerializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;

/**
 * Confluent's serializers, deserializers and Connect converters, driven by lines of JSON on standard input.
 *
 * Arguments: the URL of the registry and the address of a broker. Each request gives one line of JSON: its result, or
 * "error". Values are JSON: Avro's own encoding for Avro, Protobuf's for Protobuf. Bytes are hexadecimal digits.
 */
public final class Serdes {
  /** A class for the serializer of JSON Schema, which derives the schema from it. */
  public static class View {
    public long user;
    public String page;
  }

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration POLL = Duration.ofMillis(200);
  private static final int POLL_COUNT_MAX = 150;

  private final String registry;
  private final String broker;

  private Serdes(String registry, String broker) {
    this.registry = registry;
    this.broker = broker;
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err); // what libraries log must not mix with the answers
    Serdes serdes = new Serdes(arguments[0], arguments[1]);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      ObjectNode answer = JSON.createObjectNode();
      try {
        serdes.handle(JSON.readTree(line), answer);
      } catch (Exception error) {
        answer.put("error", describe(error));
      }
      answers.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
      answers.flush();
    }
  }

  private static String describe(Throwable error) {
    String cause = error.getCause() == null ? "" : " caused by " + describe(error.getCause());
    return error.getClass().getSimpleName() + ": " + error.getMessage() + cause;
  }

  private void handle(JsonNode request, ObjectNode answer) throws Exception {
    switch (request.path("do").asText()) {
      case "register" -> {
        try (CachedSchemaRegistryClient client = client()) {
          answer.put("id", client.register(request.path("subject").asText(), schema(client, request)));
        }
      }
      case "tag" -> answer.put("version", tag(request));
      case "serialize" -> answer.put("bytes", hex(serialize(request)));
      case "deserialize" -> show(deserialize(request), answer);
      case "produce" -> produce(request);
      case "consume" -> show(consume(request), answer);
      case "from_connect" -> answer.put("bytes", hex(fromConnect(request)));
      case "to_connect" -> answer.set("value", toConnect(request));
      default -> throw new IllegalArgumentException("unknown request: " + request);
    }
  }

  // --- serializers

  private byte[] serialize(JsonNode request) throws Exception {
    try (Serializer<Object> serializer = serializer(request)) {
      return serializer.serialize(topic(request), value(request));
    }
  }

  private Object deserialize(JsonNode request) throws Exception {
    byte[] bytes = bytes(request);
    try (Deserializer<?> deserializer = deserializer(request)) {
      if (request.hasNonNull("reader")) {
        org.apache.avro.Schema reader = new org.apache.avro.Schema.Parser().parse(request.path("reader").asText());
        return ((KafkaAvroDeserializer) deserializer).deserialize(topic(request), bytes, reader);
      }
      return deserializer.deserialize(topic(request), bytes);
    }
  }

  private void produce(JsonNode request) throws Exception {
    Map<String, Object> configs = Map.of("bootstrap.servers", broker);
    try (KafkaProducer<byte[], Object> producer =
        new KafkaProducer<>(configs, new ByteArraySerializer(), serializer(request))) {
      producer.send(new ProducerRecord<>(topic(request), new byte[] {1}, value(request))).get();
    }
  }

  private Object consume(JsonNode request) throws Exception {
    Map<String, Object> configs = Map.of("bootstrap.servers", broker, "auto.offset.reset", "earliest");
    try (KafkaConsumer<byte[], ?> consumer =
        new KafkaConsumer<>(configs, new ByteArrayDeserializer(), deserializer(request))) {
      TopicPartition partition = new TopicPartition(topic(request), 0);
      consumer.assign(List.of(partition));
      consumer.seek(partition, request.path("offset").asLong());
      for (int count = 0; count < POLL_COUNT_MAX; count++) {
        for (ConsumerRecord<byte[], ?> record : consumer.poll(POLL)) {
          return record.value();
        }
      }
    }
    throw new IllegalStateException("no record came back from " + topic(request));
  }

  @SuppressWarnings("unchecked")
  private Serializer<Object> serializer(JsonNode request) {
    Serializer<?> serializer =
        switch (format(request)) {
          case "AVRO" -> new KafkaAvroSerializer();
          case "JSON" -> new KafkaJsonSchemaSerializer<Object>();
          default -> new KafkaProtobufSerializer<Message>();
        };
    serializer.configure(configs(request), isKey(request));
    return (Serializer<Object>) serializer;
  }

  private Deserializer<?> deserializer(JsonNode request) {
    Deserializer<?> deserializer =
        switch (format(request)) {
          case "AVRO" -> new KafkaAvroDeserializer();
          case "JSON" -> new KafkaJsonSchemaDeserializer<Object>();
          default -> new KafkaProtobufDeserializer<Message>();
        };
    deserializer.configure(configs(request), isKey(request));
    return deserializer;
  }

  // --- converters

  private byte[] fromConnect(JsonNode request) throws Exception {
    JsonNode value = request.path("value");
    try (JsonConverter json = jsonConverter()) {
      SchemaAndValue data =
          json.toConnectData(topic(request), value.isNull() ? null : JSON.writeValueAsBytes(value));
      return converter(request).fromConnectData(topic(request), data.schema(), data.value());
    }
  }

  private JsonNode toConnect(JsonNode request) throws Exception {
    SchemaAndValue data = converter(request).toConnectData(topic(request), bytes(request));
    try (JsonConverter json = jsonConverter()) {
      byte[] written = json.fromConnectData(topic(request), data.schema(), data.value());
      return written == null ? JSON.nullNode() : JSON.readTree(written);
    }
  }

  private Converter converter(JsonNode request) {
    Converter converter =
        switch (format(request)) {
          case "AVRO" -> new AvroConverter();
          case "JSON" -> new JsonSchemaConverter();
          default -> new ProtobufConverter();
        };
    converter.configure(configs(request), isKey(request));
    return converter;
  }

  private static JsonConverter jsonConverter() {
    JsonConverter converter = new JsonConverter();
    converter.configure(Map.of("schemas.enable", true), false);
    return converter;
  }

  // --- schemas and values

  private CachedSchemaRegistryClient client() {
    return new CachedSchemaRegistryClient(
        List.of(registry),
        100,
        List.of(new AvroSchemaProvider(), new JsonSchemaProvider(), new ProtobufSchemaProvider()),
        Map.of());
  }

  private static ParsedSchema schema(CachedSchemaRegistryClient client, JsonNode request) {
    List<SchemaReference> references = new ArrayList<>();
    for (JsonNode each : request.path("references")) {
      references.add(
          new SchemaReference(
              each.path("name").asText(), each.path("subject").asText(), each.path("version").asInt()));
    }
    String text = request.path("schema").asText();
    return client
        .parseSchema(format(request), text, references)
        .orElseThrow(() -> new IllegalArgumentException("Java cannot parse the schema: " + text));
  }

  private int tag(JsonNode request) throws Exception {
    TagSchemaRequest change = new TagSchemaRequest();
    change.setTagsToAdd(List.of(JSON.convertValue(request.path("tagsToAdd"), SchemaTags[].class)));
    try (RestService service = new RestService(registry)) {
      String subject = request.path("subject").asText();
      return service
          .modifySchemaTags(RestService.DEFAULT_REQUEST_PROPERTIES, change, subject, request.path("version").asText())
          .getVersion();
    }
  }

  private Object value(JsonNode request) throws Exception {
    JsonNode value = request.path("value");
    if (value.isNull()) {
      return null;
    }
    if (request.hasNonNull("class")) {
      return instance(Class.forName(request.path("class").asText()), value);
    }
    try (CachedSchemaRegistryClient client = client()) {
      ParsedSchema schema = schema(client, request);
      if (schema instanceof AvroSchema avro) {
        GenericDatumReader<Object> reader = new GenericDatumReader<>(avro.rawSchema());
        return reader.read(null, DecoderFactory.get().jsonDecoder(avro.rawSchema(), value.toString()));
      }
      if (schema instanceof JsonSchema json) {
        return JsonSchemaUtils.envelope(json, value);
      }
      String name = request.hasNonNull("message") ? request.path("message").asText() : schema.name();
      return filled(((ProtobufSchema) schema).newMessageBuilder(name), value);
    }
  }

  private static Object instance(Class<?> type, JsonNode value) throws Exception {
    if (Message.class.isAssignableFrom(type)) {
      return filled((Message.Builder) type.getMethod("newBuilder").invoke(null), value);
    }
    return JSON.treeToValue(value, type);
  }

  private static Message filled(Message.Builder builder, JsonNode value) throws Exception {
    JsonFormat.parser().merge(value.toString(), builder);
    return builder.build();
  }

  /** Put a value and the name of its type into an answer. */
  private static void show(Object value, ObjectNode answer) throws Exception {
    if (value instanceof Message message) {
      answer.put("type", message.getDescriptorForType().getFullName());
      answer.set("value", JSON.readTree(JsonFormat.printer().preservingProtoFieldNames().print(message)));
    } else if (value instanceof IndexedRecord record) {
      answer.put("type", record.getSchema().getFullName());
      answer.set("value", JSON.readTree(GenericData.get().toString(record)));
    } else {
      answer.put("type", value == null ? null : value.getClass().getName());
      answer.set("value", JSON.valueToTree(value));
    }
  }

  // --- requests

  private Map<String, Object> configs(JsonNode request) {
    Map<String, Object> configs = new HashMap<>(Map.of("schema.registry.url", registry));
    request.path("config").fields().forEachRemaining(each -> configs.put(each.getKey(), each.getValue().asText()));
    return configs;
  }

  private static String format(JsonNode request) {
    return request.path("format").asText();
  }

  private static String topic(JsonNode request) {
    return request.path("topic").asText();
  }

  private static boolean isKey(JsonNode request) {
    return request.path("is_key").asBoolean();
  }

  private static byte[] bytes(JsonNode request) {
    return request.hasNonNull("bytes") ? HexFormat.of().parseHex(request.path("bytes").asText()) : null;
  }

  private static String hex(byte[] bytes) {
    return bytes == null ? null : HexFormat.of().formatHex(bytes);
  }
}
