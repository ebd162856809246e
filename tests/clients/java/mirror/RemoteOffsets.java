import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints what MirrorMaker's client finds in a cluster: RemoteOffsets SERVERS SOURCE GROUP. */
public class RemoteOffsets {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[0]);
        System.out.println("upstream " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(config)));
        System.out.println("hops " + RemoteClusterUtils.replicationHops(config, args[1]));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(config)));
        Map<String, Long> offsets = new TreeMap<>();
        RemoteClusterUtils.translateOffsets(config, args[1], args[2], Duration.ofSeconds(30))
            .forEach((partition, offset) -> offsets.put(partition.toString(), offset.offset()));
        System.out.println("offsets " + offsets);
    }
}
