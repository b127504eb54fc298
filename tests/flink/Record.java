import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Evaluates expressions over a small table in Flink, and writes one line for each: the expression, its type, and its
 * value in every row of the table, separated by tabs. A value that could not be computed is "!" and the class of the
 * error; an expression that is refused has the type "!" and the class, and no values. Expressions whose lines are in
 * the output already keep them. The names of all functions that Flink has go to another file.
 */
public class Record {
    private static final int BATCH = 40;
    /** A column of the table; and a text, in which a column's name means nothing. */
    private static final Pattern COLUMN = Pattern.compile("\\b(b|ti|si|i|l|f|d|dc|s|p|u|j|dt|ts|tz)\\b");
    private static final Pattern TEXT = Pattern.compile("'[^']*'");

    private final TableEnvironment flink;
    /** What stands before each expression in the output. */
    private final String prefix;
    private final List<Integer> ids = new ArrayList<>();

    /** What one expression gives: its type and its value by row. */
    private static final class Answer {
        String type;
        final Map<Integer, String> values = new TreeMap<>();
    }

    private Record(Path data, Path table, String zone) throws Exception {
        prefix = zone.equals("UTC") ? "" : zone + ": ";
        flink = TableEnvironment.create(EnvironmentSettings.newInstance().inBatchMode().build());
        flink.getConfig().set("table.local-time-zone", zone);
        flink.getConfig().set("parallelism.default", "1");
        flink.executeSql(Files.readString(table) + " WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '"
                + data.toAbsolutePath() + "')");
        try (CloseableIterator<Row> rows = flink.executeSql("SELECT id FROM input").collect()) {
            rows.forEachRemaining(row -> ids.add((Integer) row.getField(0)));
        }
    }

    /**
     * Arguments: the rows and the declaration of the table, the expressions, the output, and the file of functions. With a sixth
     * argument, a file of time zones, each expression is evaluated in each of them.
     */
    public static void main(String[] args) throws Exception {
        List<String> expressions = lines(Path.of(args[2]));
        List<String> zones = args.length > 5 ? lines(Path.of(args[5])) : List.of("UTC");
        Map<String, String> known = known(Path.of(args[3]));
        List<String> all = new ArrayList<>();
        for (String zone : zones) {
            Record record = new Record(Path.of(args[0]), Path.of(args[1]), zone);
            expressions.forEach(expression -> all.add(record.prefix + expression));
            List<String> asked = expressions.stream().filter(e -> !known.containsKey(record.prefix + e)).toList();
            for (int from = 0; from < asked.size(); from += BATCH) {
                record.answer(asked.subList(from, Math.min(from + BATCH, asked.size())), known);
                write(Path.of(args[3]), all, known);
            }
            Files.write(Path.of(args[4]), new TreeSet<>(List.of(record.flink.listFunctions())));
        }
        write(Path.of(args[3]), all, known);
    }

    /** The lines of a file that are neither blank nor comments. */
    private static List<String> lines(Path path) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String line : Files.readAllLines(path, StandardCharsets.UTF_8)) {
            if (!line.isBlank() && !line.startsWith("--")) {
                lines.add(line.strip());
            }
        }
        return lines;
    }

    /** The lines that an earlier run has written, by expression. */
    private static Map<String, String> known(Path path) throws Exception {
        Map<String, String> known = new TreeMap<>();
        if (Files.exists(path)) {
            Files.readAllLines(path, StandardCharsets.UTF_8).forEach(line -> known.put(line.split("\t")[0], line));
        }
        return known;
    }

    /** Writes the lines of the expressions that are answered, in the order of the corpus. */
    private static void write(Path path, List<String> expressions, Map<String, String> known) throws Exception {
        Files.write(path, expressions.stream().map(known::get).filter(line -> line != null).toList());
    }

    /** Adds the lines of some expressions. */
    private void answer(List<String> expressions, Map<String, String> lines) {
        Map<String, Answer> answers = new TreeMap<>();
        List<String> valid = new ArrayList<>();
        for (String expression : expressions) {
            Answer answer = new Answer();
            try {
                flink.sqlQuery("SELECT " + expression + " FROM input");
                valid.add(expression);
            } catch (Throwable error) {
                answer.type = "!" + Texts.rootClass(error);
            }
            answers.put(expression, answer);
        }
        evaluate(valid, answers);
        for (String expression : expressions) {
            Answer answer = answers.get(expression);
            StringBuilder line = new StringBuilder(prefix + expression).append('\t').append(answer.type);
            answer.values.values().forEach(value -> line.append('\t').append(value));
            lines.put(prefix + expression, line.toString());
        }
        System.err.println("answered " + expressions.size() + ", refused " + (expressions.size() - valid.size()));
    }

    /** Evaluates expressions in one query, or in halves where one of them fails. */
    private void evaluate(List<String> expressions, Map<String, Answer> answers) {
        if (expressions.isEmpty()) {
            return;
        }
        try {
            query(expressions, "", answers);
        } catch (Throwable error) {
            if (expressions.size() > 1) {
                int half = expressions.size() / 2;
                evaluate(expressions.subList(0, half), answers);
                evaluate(expressions.subList(half, expressions.size()), answers);
                return;
            }
            Answer answer = answers.get(expressions.get(0));
            boolean constant = !COLUMN.matcher(TEXT.matcher(expressions.get(0)).replaceAll("")).find();
            for (int id : constant ? List.<Integer>of() : ids) {
                try {
                    query(expressions, " WHERE id = " + id, answers);
                } catch (Throwable single) {
                    answer.values.put(id, "!" + Texts.rootClass(single));
                }
            }
            if (constant) {
                ids.forEach(id -> answer.values.put(id, "!" + Texts.rootClass(error)));
            }
            if (answer.type == null) {
                answer.type = "?";
            }
        }
    }

    private void query(List<String> expressions, String where, Map<String, Answer> answers) throws Exception {
        var result = flink.executeSql("SELECT id, " + String.join(", ", expressions) + " FROM input" + where);
        List<DataType> types = result.getResolvedSchema().getColumnDataTypes();
        List<Row> rows = new ArrayList<>();
        try (CloseableIterator<Row> iterator = result.collect()) {
            iterator.forEachRemaining(rows::add);
        }
        for (int column = 0; column < expressions.size(); column++) {
            Answer answer = answers.get(expressions.get(column));
            answer.type = types.get(column + 1).getLogicalType().asSummaryString();
            for (Row row : rows) {
                answer.values.put((Integer) row.getField(0), Texts.value(row.getField(column + 1)));
            }
        }
    }
}
