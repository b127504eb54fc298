import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Values and errors of Flink as the texts that the tests in Rust compare. */
final class Texts {
    private static final DateTimeFormatter SECONDS = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSSSSS");

    private Texts() {}

    static String rootClass(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        if (System.getenv("FLINK_ERRORS") != null) {
            System.err.println(root);
        }
        return root.getClass().getSimpleName();
    }

    /** A value as text, the same that the test in Rust writes for an Arrow value. */
    static String value(Object value) {
        if (value == null) {
            return "NULL";
        } else if (value instanceof String string) {
            return quoted(string);
        } else if (value instanceof BigDecimal decimal) {
            return decimal.toPlainString();
        } else if (value instanceof LocalDateTime time) {
            return time.format(SECONDS);
        } else if (value instanceof Instant instant) {
            return instant.atOffset(ZoneOffset.UTC).format(SECONDS);
        } else if (value instanceof LocalDate || value instanceof LocalTime) {
            return value.toString();
        } else if (value instanceof byte[] bytes) {
            StringBuilder hex = new StringBuilder("x'");
            for (byte b : bytes) {
                hex.append(String.format("%02x", b));
            }
            return hex.append('\'').toString();
        } else if (value instanceof Object[] items) {
            List<String> texts = new ArrayList<>();
            for (Object item : items) {
                texts.add(value(item));
            }
            return texts.toString();
        } else if (value instanceof Map<?, ?> map) {
            Map<String, String> texts = new TreeMap<>();
            map.forEach((key, item) -> texts.put(value(key), value(item)));
            return texts.toString();
        }
        return value.toString();
    }

    private static String quoted(String string) {
        StringBuilder text = new StringBuilder("'");
        string.codePoints().forEach(c -> {
            if (c == '\\' || c == '\'') {
                text.append('\\').appendCodePoint(c);
            } else if (c < ' ' || c == 0x7f || c >= 0xd800 && c <= 0xdfff) {
                text.append(String.format("\\u%04x", c));
            } else {
                text.appendCodePoint(c);
            }
        });
        return text.append('\'').toString();
    }
}
