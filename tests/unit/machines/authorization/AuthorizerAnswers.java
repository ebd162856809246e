import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

/** Prints what Kafka's StandardAuthorizer answers for random ACLs, as authorizer_answers.json has it. */
public class AuthorizerAnswers {
  // No name starts with '*', '#' or 'h': there the answers of Kafka 4.3.1 have causes that test_authorizer.py explains.
  static final List<String> NAMES = List.of("a", "ab", "abc", "b", "*", "kafka-cluster", "kafka");
  static final List<String> PRINCIPALS = List.of("User:a", "User:b", "Group:a", "User:root");
  static final List<String> HOSTS = List.of("10.0.0.1", "10.0.0.2");
  static final Random random = new Random(11);

  record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
    public String listenerName() { return "PLAINTEXT"; }
    public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
    public int requestType() { return 0; }
    public int requestVersion() { return 0; }
    public String clientId() { return ""; }
    public int correlationId() { return 0; }
  }

  static <T> T one(List<T> from) { return from.get(random.nextInt(from.size())); }
  static <T> List<T> with(List<T> from, T more) { List<T> all = new ArrayList<>(from); all.add(more); return all; }
  static String text(String value) { return value == null ? "null" : "\"" + value + "\""; }

  static Client client(String principal, String host) throws Exception {
    String[] parts = principal.split(":", 2);
    return new Client(new KafkaPrincipal(parts[0], parts[1]), InetAddress.getByName(host));
  }

  static StandardAcl acl(List<ResourceType> types, List<AclOperation> operations) {
    return new StandardAcl(one(types), one(NAMES), one(List.of(PatternType.LITERAL, PatternType.PREFIXED)),
        one(with(PRINCIPALS, "User:*")), one(with(HOSTS, "*")), one(operations),
        one(List.of(AclPermissionType.DENY, AclPermissionType.ALLOW, AclPermissionType.ALLOW)));
  }

  static String shown(AclBinding acl) {
    return "[" + acl.pattern().resourceType().code() + ", " + text(acl.pattern().name()) + ", "
        + acl.pattern().patternType().code() + ", " + text(acl.entry().principal()) + ", " + text(acl.entry().host())
        + ", " + acl.entry().operation().code() + ", " + acl.entry().permissionType().code() + "]";
  }

  static String selected(StandardAuthorizer authorizer, List<ResourceType> types) {
    ResourceType type = one(with(types, ResourceType.ANY));
    String name = random.nextInt(4) == 0 ? null : one(NAMES);
    PatternType pattern = one(List.of(PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED));
    String principal = random.nextInt(3) > 0 ? null : one(PRINCIPALS), host = random.nextInt(3) > 0 ? null : "*";
    AclPermissionType permission = one(List.of(AclPermissionType.ANY, AclPermissionType.ALLOW));
    StringJoiner found = new StringJoiner(", ", "[", "]");
    for (AclBinding acl : authorizer.acls(new AclBindingFilter(new ResourcePatternFilter(type, name, pattern),
        new AccessControlEntryFilter(principal, host, AclOperation.ANY, permission)))) found.add(shown(acl));
    return "[[" + type.code() + ", " + text(name) + ", " + pattern.code() + ", " + text(principal) + ", " + text(host)
        + ", " + AclOperation.ANY.code() + ", " + permission.code() + "], " + found + "]";
  }

  static String asked(StandardAuthorizer authorizer, List<ResourceType> types, List<AclOperation> operations,
      boolean byType) throws Exception {
    String principal = one(PRINCIPALS), host = one(HOSTS), name = one(NAMES);
    AclOperation operation = one(operations);
    ResourceType type = one(types);
    Client client = client(principal, host);
    Action action = new Action(operation, new ResourcePattern(type, name, PatternType.LITERAL), 1, false, false);
    AuthorizationResult result = byType ? authorizer.authorizeByResourceType(client, operation, type)
        : authorizer.authorize(client, List.of(action)).get(0);
    return "[" + text(principal) + ", " + text(host) + ", " + operation.code() + ", " + type.code()
        + (byType ? "" : ", " + text(name)) + ", " + (result == AuthorizationResult.ALLOWED) + "]";
  }

  public static void main(String[] arguments) throws Exception {
    StringJoiner cases = new StringJoiner(",\n", "[\n", "\n]");
    for (int number = 0; number < 120; number++) {
      boolean everyone = random.nextBoolean();
      List<AclOperation> operations = new ArrayList<>(List.of(AclOperation.values()).subList(3, 16));
      Collections.shuffle(operations, random);
      operations = new ArrayList<>(operations.subList(0, 2));
      operations.addAll(List.of(AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE));
      List<ResourceType> types = List.of(one(List.of(ResourceType.values()).subList(2, 8)), ResourceType.TOPIC);
      StandardAuthorizer authorizer = new StandardAuthorizer();
      authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
      authorizer.configure(Map.of("super.users", "User:root", "allow.everyone.if.no.acl.found", "" + everyone));
      Set<StandardAcl> acls = new LinkedHashSet<>();
      for (int count = random.nextInt(10); count > 0; count--) acls.add(acl(types, operations));
      for (StandardAcl acl : acls) authorizer.addAcl(Uuid.randomUuid(), acl);
      authorizer.completeInitialLoad();
      StringJoiner shown = new StringJoiner(", ", "[", "]"), asks = new StringJoiner(", ", "[", "]");
      StringJoiner byType = new StringJoiner(", ", "[", "]"), selected = new StringJoiner(", ", "[", "]");
      for (StandardAcl acl : acls) shown.add(shown(acl.toBinding()));
      for (int count = 0; count < 10; count++) asks.add(asked(authorizer, types, operations, false));
      for (int count = 0; count < 5; count++) byType.add(asked(authorizer, types, operations, true));
      for (int count = 0; count < 3; count++) selected.add(selected(authorizer, types));
      cases.add("{\"everyone\": " + everyone + ", \"acls\": " + shown + ", \"authorize\": " + asks
          + ", \"by_resource_type\": " + byType + ", \"select\": " + selected + "}");
    }
    System.out.println(cases);
  }
}
