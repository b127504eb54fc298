package osched.workload;

import java.util.SplittableRandom;
import osched.core.Emit;
import osched.core.Generator;
import osched.core.Operator;
import osched.core.Row;

/**
 * What ETL and STATS read: messages of sensors of a city as SenML text, five observations each, and their
 * parser.
 */
final class Sensors {
    /** A text. */
    static final int MESSAGE = 0;
    /** Columns: message, sensor, which observation (0 to 4), value, time in s. */
    static final int OBSERVATION = 1;

    /** The observations of a message. */
    static final String[] NAMES = {"temperature", "humidity", "light", "dust", "airquality_raw"};
    static final int COUNT = 2_000;
    private static final String SENSOR_PREFIX = "ci4lr75v6000o02ypa6w";
    private static final String[] UNITS = {"far", "per", "per", "per", "per"};

    private Sensors() {}

    /** A number for the sensor and which of its observations it is. */
    static long series(Row observation) {
        return (long) observation.fields[1] * NAMES.length + (long) observation.fields[2];
    }

    /**
     * The messages. One value of 200 is far out of range, and one sensor of 100 is not registered: its number
     * is too high.
     */
    static final class Messages implements Generator {
        private static final long serialVersionUID = 1;

        @Override
        public Row next(long number, SplittableRandom random) {
            int sensor = random.nextInt(100) == 0 ? COUNT + random.nextInt(COUNT) : random.nextInt(COUNT);
            StringBuilder text = new StringBuilder(300);
            text.append("{\"e\":[");
            for (int at = 0; at < NAMES.length; at++) {
                double value = 20 + at * 10 + 10 * Math.sin(number / 500.0) + random.nextDouble();
                double observed = random.nextInt(200) == 0 ? 9_999 : Math.round(value * 1_000) / 1e3;
                text.append("{\"v\":\"").append(observed).append("\",\"u\":\"").append(UNITS[at])
                        .append("\",\"n\":\"").append(NAMES[at]).append("\"},");
            }
            text.append("{\"v\":\"").append(number).append("\",\"u\":\"no\",\"n\":\"message\"},")
                    .append("{\"v\":\"").append(SENSOR_PREFIX).append(sensor)
                    .append("\",\"u\":\"string\",\"n\":\"source\"}],\"bt\":").append(1_422_748_800 + number / 10)
                    .append('}');
            return new Row(MESSAGE, text.toString());
        }
    }

    /** Splits a message into its observations. */
    static final class Parse implements Operator {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            String text = row.text;
            double[] values = new double[NAMES.length];
            double message = 0;
            double sensor = 0;
            int at = 0;
            while ((at = text.indexOf("{\"v\":\"", at)) >= 0) {
                int end = text.indexOf('"', at + 6);
                String value = text.substring(at + 6, end);
                int named = text.indexOf("\"n\":\"", end) + 5;
                at = text.indexOf('"', named);
                String name = text.substring(named, at);
                if (name.equals("message")) {
                    message = Double.parseDouble(value);
                } else if (name.equals("source")) {
                    sensor = Double.parseDouble(value.substring(SENSOR_PREFIX.length()));
                } else {
                    values[java.util.Arrays.asList(NAMES).indexOf(name)] = Double.parseDouble(value);
                }
            }
            double time = Double.parseDouble(text.substring(text.indexOf("\"bt\":") + 5, text.length() - 1));
            for (int which = 0; which < values.length; which++) {
                emit.emit(row.with(OBSERVATION, message, sensor, which, values[which], time));
            }
        }
    }
}
