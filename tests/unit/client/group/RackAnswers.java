import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;
/** Prints what Kafka's range assignor answers for random groups with racks, as rack_answers.json has it. */
public class RackAnswers {
  static String list(Collection<String> items) { return "[" + String.join(", ", items) + "]"; }
  static String text(String item) { return "\"" + item + "\""; }
  public static void main(String[] a) throws Exception {
    Random r = new Random(11);
    List<String> lines = new ArrayList<>();
    for (int c = 0; c < 80; c++) {
      int topics = 1 + r.nextInt(4), members = 1 + r.nextInt(5), replicas = 1 + r.nextInt(2);
      Node[] nodes = new Node[3];
      for (int i = 0; i < 3; i++) nodes[i] = new Node(i, "h", 1, "rack" + i);
      List<PartitionInfo> infos = new ArrayList<>();
      StringJoiner described = new StringJoiner(", ");
      int alike = 1 + r.nextInt(7);
      for (int t = 0; t < topics; t++) {
        int p = r.nextInt(2) == 0 ? alike : 1 + r.nextInt(7), first = r.nextInt(3);
        List<String> racks = new ArrayList<>();
        for (int i = 0; i < p; i++) {
          Node[] on = new Node[replicas];
          List<String> names = new ArrayList<>();
          for (int k = 0; k < replicas; k++) { on[k] = nodes[(first + i + k) % 3]; names.add(text(on[k].rack())); }
          infos.add(new PartitionInfo("t" + t, i, on[0], on, on));
          racks.add(list(names));
        }
        described.add(text("t" + t) + ": " + list(racks));
      }
      Cluster cluster = new Cluster("c", List.of(nodes), infos, Set.of(), Set.of());
      Map<String, Subscription> subs = new TreeMap<>();
      Map<String, String> where = new HashMap<>();
      for (int m = 0; m < members; m++) {
        List<String> want = new ArrayList<>();
        for (int t = 0; t < topics; t++) if (r.nextInt(5) > 0) want.add("t" + t);
        String rack = r.nextInt(5) == 0 ? null : "rack" + r.nextInt(4), id = "m" + r.nextInt(100) + "-" + m;
        subs.put(id, new Subscription(want, null, List.of(), -1, Optional.ofNullable(rack)));
        where.put(id, rack);
      }
      Map<String, Assignment> got = new RangeAssignor().assign(cluster, new GroupSubscription(subs)).groupAssignment();
      StringJoiner people = new StringJoiner(", ");
      for (var e : subs.entrySet()) {
        List<String> wants = e.getValue().topics().stream().map(RackAnswers::text).toList();
        var l = new ArrayList<>(got.get(e.getKey()).partitions());
        l.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        List<String> gets = l.stream().map(t -> "[" + text(t.topic()) + ", " + t.partition() + "]").toList();
        String rack = where.get(e.getKey());
        people.add(text(e.getKey()) + ": {\"rack\": " + (rack == null ? "null" : text(rack)) + ", \"topics\": " + list(wants) + ", \"gets\": " + list(gets) + "}");
      }
      lines.add("{\"racks\": {" + described + "}, \"members\": {" + people + "}}");
    }
    System.out.print("[\n" + String.join(",\n", lines) + "\n]\n");
  }
}
