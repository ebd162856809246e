import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;
/** Prints what the assignors of Kafka's client answer for random groups, as assignor_answers.json has it. */
public class AssignorAnswers {
  public static void main(String[] a) throws Exception {
    Random r = new Random(7);
    StringBuilder out = new StringBuilder("[\n");
    for (int c = 0; c < 60; c++) {
      int topics = 1 + r.nextInt(4), members = 1 + r.nextInt(5);
      List<PartitionInfo> infos = new ArrayList<>();
      Map<String,Integer> counts = new TreeMap<>();
      Node n = new Node(1, "h", 1);
      for (int t = 0; t < topics; t++) {
        int p = r.nextInt(8); counts.put("t" + t, p);
        for (int i = 0; i < p; i++) infos.add(new PartitionInfo("t" + t, i, n, new Node[]{n}, new Node[]{n}));
      }
      Cluster cluster = new Cluster("c", List.of(n), infos, Set.of(), Set.of());
      Map<String, Subscription> subs = new TreeMap<>();
      for (int m = 0; m < members; m++) {
        List<String> want = new ArrayList<>();
        for (int t = 0; t < topics; t++) if (r.nextInt(4) > 0) want.add("t" + t);
        Subscription s = new Subscription(want);
        if (r.nextInt(3) == 0) s.setGroupInstanceId(Optional.of("i" + (9 - m)));
        subs.put("m" + r.nextInt(100) + "-" + m, s);
      }
      for (ConsumerPartitionAssignor x : List.of(new RangeAssignor(), new RoundRobinAssignor())) {
        Map<String, Assignment> got = x.assign(cluster, new GroupSubscription(subs)).groupAssignment();
        StringBuilder line = new StringBuilder("{\"assignor\": \"" + x.name() + "\", \"counts\": {");
        StringJoiner j = new StringJoiner(", "); counts.forEach((k, v) -> j.add("\"" + k + "\": " + v)); line.append(j).append("}, \"members\": {");
        StringJoiner jm = new StringJoiner(", ");
        for (var e : subs.entrySet()) {
          StringJoiner w = new StringJoiner(", "); e.getValue().topics().forEach(t -> w.add("\"" + t + "\""));
          StringJoiner g = new StringJoiner(", ");
          var l = new ArrayList<>(got.get(e.getKey()).partitions()); l.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
          l.forEach(t -> g.add("[\"" + t.topic() + "\", " + t.partition() + "]"));
          jm.add("\"" + e.getKey() + "\": {\"instance\": " + e.getValue().groupInstanceId().map(i -> "\"" + i + "\"").orElse("null") + ", \"topics\": [" + w + "], \"gets\": [" + g + "]}");
        }
        line.append(jm).append("}}");
        out.append(line).append(c == 59 && x instanceof RoundRobinAssignor ? "\n" : ",\n");
      }
    }
    System.out.print(out.append("]\n"));
  }
}
