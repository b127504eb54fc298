import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Reads the records of changes.json, which Debezium could have written, with Flink, and writes the records that Flink
 * makes of them to written.json.
 */
public class Changes {
    private static final String COLUMNS = "(id INT, name STRING, price DECIMAL(10, 2), weight DOUBLE, ok BOOLEAN, `day` DATE,"
            + " `at` TIMESTAMP(3), tags ARRAY<STRING>, r ROW<x INT, y STRING>)";

    private Changes() {}

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]).toAbsolutePath();
        Path written = Path.of(args[1]).toAbsolutePath();
        TableEnvironment flink = TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().build());
        flink.getConfig().set("table.local-time-zone", "UTC");
        flink.getConfig().set("parallelism.default", "1");
        flink.executeSql(table("changes", folder.resolve("changes.json")));
        flink.executeSql(table("copies", written));
        flink.executeSql("INSERT INTO copies SELECT * FROM changes").await();
        List<String> records = new ArrayList<>();
        try (Stream<Path> files = Files.walk(written)) {
            for (Path file : files.filter(Files::isRegularFile).sorted().toList()) {
                records.addAll(Files.readAllLines(file));
            }
        }
        Files.write(folder.resolve("written.json"), records);
    }

    private static String table(String name, Path path) {
        return "CREATE TABLE " + name + " " + COLUMNS + " WITH ('connector' = 'filesystem', 'format' = 'debezium-json',"
                + " 'path' = '" + path + "')";
    }
}
