import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.ExplainDetail;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.catalog.ResolvedSchema;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs whole queries in Flink, over the tables of a folder, and writes Flink's answers below them. Queries that have an
 * answer keep it. The folder's tables.sql declares the tables; the rows of each are in a file of its name.
 *
 * A query begins with a line "--- name" and ends before the next one. Its last statement is asked, those before it are
 * carried out first; SET 'execution.runtime-mode' = 'batch' asks in batch mode. The lines of its answer follow: "--: streaming, stays" or "--: streaming, updates" (or "batch",
 * where Flink refuses the query over streams), "--: column TYPE | ..." and a line "--= value | ..." for each row that is
 * left at the end, sorted. Or "--! refused: error", or "--! failed: error" where the error comes while the query runs.
 */
public class Queries {
    private static final String BEGIN = "--- ";
    private static final Pattern CREATE = Pattern.compile("(?s)CREATE TABLE (\\w+) .*");
    private static final Pattern OPTION = Pattern.compile("SET '([^']*)' = '([^']*)'");
    private static final Pattern CHANGES = Pattern.compile("changelogMode=\\[([^\\]]*)\\]");

    private final Path folder;

    private Queries(Path folder) {
        this.folder = folder;
    }

    public static void main(String[] args) throws Exception {
        Queries queries = new Queries(Path.of(args[0]));
        List<Path> files;
        try (Stream<Path> all = Files.list(queries.folder)) {
            files = all.filter(p -> p.toString().endsWith(".sql") && !p.endsWith("tables.sql")).sorted().toList();
        }
        for (Path file : files) {
            queries.answer(file);
        }
    }

    /** Writes the answers that a file lacks. */
    private void answer(Path file) throws Exception {
        List<String> lines = Files.readAllLines(file, StandardCharsets.UTF_8);
        List<String> written = new ArrayList<>();
        int asked = 0;
        for (int at = 0; at < lines.size();) {
            if (!lines.get(at).startsWith(BEGIN)) {
                written.add(lines.get(at++));
                continue;
            }
            String name = lines.get(at).substring(BEGIN.length());
            int end = at + 1;
            while (end < lines.size() && !lines.get(end).startsWith(BEGIN)) {
                end++;
            }
            List<String> section = new ArrayList<>(lines.subList(at, end));
            at = end;
            if (section.stream().noneMatch(Queries::isAnswer)) {
                while (section.get(section.size() - 1).isBlank()) {
                    section.remove(section.size() - 1);
                }
                section.addAll(ask(String.join("\n", section.subList(1, section.size()))));
                section.add("");
                asked++;
                System.err.println(file.getFileName() + ": " + name);
            }
            written.addAll(section);
        }
        if (asked > 0) {
            Files.write(file, written);
        }
    }

    private static boolean isAnswer(String line) {
        return line.startsWith("--:") || line.startsWith("--!");
    }

    private List<String> ask(String sql) throws Exception {
        if (sql.contains("'execution.runtime-mode' = 'batch'")) {
            return ask(sql, false);
        }
        List<String> answer = ask(sql, true);
        if (!answer.get(0).startsWith("--! refused")) {
            return answer;
        }
        List<String> batch = ask(sql, false);
        return batch.get(0).startsWith("--!") ? answer : batch;
    }

    private List<String> ask(String sql, boolean streaming) throws Exception {
        TableEnvironment flink = environment(streaming);
        List<String> statements = statements(sql);
        String query = statements.get(statements.size() - 1);
        List<String> answer = new ArrayList<>();
        boolean running = false;
        try {
            for (String statement : statements.subList(0, statements.size() - 1)) {
                Matcher option = OPTION.matcher(statement);
                if (option.matches() && option.group(1).equals("execution.runtime-mode")) {
                    continue;
                } else if (option.matches()) {
                    flink.getConfig().set(option.group(1), option.group(2));
                } else {
                    flink.executeSql(statement);
                }
            }
            answer.add("--: " + (streaming ? "streaming, " + (updates(flink, query) ? "updates" : "stays") : "batch"));
            ResolvedSchema schema = flink.sqlQuery(query).getResolvedSchema();
            answer.add("--: " + String.join(" | ", schema.getColumns().stream().map(Queries::column).toList()));
            running = true;
            rows(flink, query).forEach((row, count) -> {
                for (int i = 0; i < Math.abs(count); i++) {
                    answer.add((count > 0 ? "--= " : "--= (missing) ") + row);
                }
            });
            return answer;
        } catch (Throwable error) {
            return List.of("--! " + (running ? "failed: " : "refused: ") + reason(error));
        }
    }

    /** The rows that are left when all changes are added up, with their numbers. */
    private static Map<String, Integer> rows(TableEnvironment flink, String query) throws Exception {
        Map<String, Integer> counts = new TreeMap<>();
        try (CloseableIterator<Row> rows = flink.executeSql(query).collect()) {
            while (rows.hasNext()) {
                Row row = rows.next();
                List<String> values = new ArrayList<>();
                for (int i = 0; i < row.getArity(); i++) {
                    values.add(Texts.value(row.getField(i)));
                }
                boolean added = row.getKind() == RowKind.INSERT || row.getKind() == RowKind.UPDATE_AFTER;
                counts.merge(String.join(" | ", values), added ? 1 : -1, Integer::sum);
            }
        }
        return counts;
    }

    private static boolean updates(TableEnvironment flink, String query) {
        Matcher root = CHANGES.matcher(flink.explainSql(query, ExplainDetail.CHANGELOG_MODE));
        return root.find() && !root.group(1).equals("I");
    }

    private static String column(Column column) {
        return column.getName() + " " + column.getDataType().getLogicalType().asSummaryString().replace(" *ROWTIME*", "");
    }

    private static String reason(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        String message = String.valueOf(root.getMessage()).lines().findFirst().orElse("");
        return root.getClass().getSimpleName() + ": " + message.substring(0, Math.min(message.length(), 160));
    }

    private TableEnvironment environment(boolean streaming) throws Exception {
        EnvironmentSettings.Builder settings = EnvironmentSettings.newInstance();
        TableEnvironment flink =
                TableEnvironment.create(streaming ? settings.inStreamingMode().build() : settings.inBatchMode().build());
        flink.getConfig().set("table.local-time-zone", "UTC");
        flink.getConfig().set("parallelism.default", "1");
        // Event time advances with each row, and not with the machine's clock.
        flink.getConfig().set("pipeline.auto-watermark-interval", "0 ms");
        for (String statement : statements(Files.readString(folder.resolve("tables.sql")))) {
            Matcher table = CREATE.matcher(statement);
            if (!table.matches()) {
                throw new IllegalArgumentException("tables.sql has something else than CREATE TABLE: " + statement);
            }
            boolean csv = Files.exists(folder.resolve(table.group(1) + ".csv"));
            flink.executeSql(statement + " WITH ('connector' = 'filesystem', 'format' = '" + (csv ? "csv" : "json")
                    + "', 'path' = '" + folder.resolve(table.group(1) + (csv ? ".csv" : ".json")).toAbsolutePath()
                    + "')");
        }
        return flink;
    }

    /** The statements of a text: they end in a semicolon at the end of a line. */
    private static List<String> statements(String text) {
        String plain = String.join("\n", text.lines().filter(line -> !line.startsWith("--")).toList());
        return Stream.of(plain.split(";\\s*(\n|$)")).map(String::strip).filter(s -> !s.isEmpty()).toList();
    }
}
