package osched.workload;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32;
import osched.core.Emit;
import osched.core.Key;
import osched.core.Keyed;
import osched.core.Operator;
import osched.core.Query;
import osched.core.Row;

/**
 * ETL of RIoTBench (Shukla, Chaturvedi, Simmhan, 2017): parses messages of sensors, filters, interpolates,
 * joins, annotates, and publishes them. Simplified: the table and the broker at its end are replaced by the
 * work to write for them.
 */
final class Etl {
    /** Columns: message, sensor, time in s, five values. */
    static final int RECORD = 2;

    private static final double LEAST = -50;
    private static final double MOST = 500;

    private Etl() {}

    static Query query(String name, int parallelism) {
        Query query = new Query(name);
        Key sensor = row -> (long) row.fields[1];
        Key message = row -> (long) row.fields[0];
        Query.Node source = query.source(new Sensors.Messages());
        Query.Node parse = query.operator("parse", new Sensors.Parse());
        Query.Node range = query.operator("range", new Range());
        Query.Node bloom = query.operator("bloom", new Registered());
        Query.Node interpolate = query.operator("interpolate", parallelism, new Interpolate());
        Query.Node join = query.operator("join", parallelism, new Join());
        Query.Node annotate = query.operator("annotate", new Annotate());
        Query.Node insert = query.operator("insert", new Insert());
        Query.Node senml = query.operator("senml", new ToText());
        Query.Node publish = query.operator("publish", new Publish());
        Query.Node sink = query.sink();
        query.chain(source, parse, range, bloom);
        query.edge(bloom, 0, interpolate, sensor);
        query.edge(interpolate, 0, join, message);
        query.chain(join, annotate, senml, publish, sink);
        query.edge(annotate, 0, insert);
        query.edge(insert, 0, sink);
        return query;
    }

    /** Replaces what is out of range by NaN. */
    private static final class Range implements Operator {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields.clone();
            if (f[3] < LEAST || f[3] > MOST) {
                f[3] = Double.NaN;
            }
            emit.emit(row.with(row.kind, f));
        }
    }

    /** Drops observations of sensors that are not registered. */
    private static final class Registered implements Operator {
        private static final long serialVersionUID = 1;
        private transient DecayingBloom known;

        @Override
        public void open(int instance) {
            known = new DecayingBloom(1 << 16, 1e12);
            for (int sensor = 0; sensor < Sensors.COUNT; sensor++) {
                known.add(sensor, 1, 0);
            }
        }

        @Override
        public void process(Row row, Emit emit) {
            if (known.count((long) row.fields[1], 0) > 0.5) {
                emit.emit(row);
            }
        }
    }

    /** Puts the average of the sensor's last values in the place of NaN. */
    private static final class Interpolate extends Keyed<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields.clone();
            double[] average = states.computeIfAbsent(Sensors.series(row),
                    ignored -> new double[] {Double.isNaN(f[3]) ? 0 : f[3]});
            if (Double.isNaN(f[3])) {
                f[3] = average[0];
            } else {
                average[0] += (f[3] - average[0]) / 5;
            }
            emit.emit(row.with(row.kind, f));
        }
    }

    /** Puts the observations of a message together again. */
    private static final class Join extends Keyed<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            // The last column counts those that are there.
            double[] record = states.computeIfAbsent((long) f[0], ignored -> new double[4 + Sensors.NAMES.length]);
            record[0] = f[0];
            record[1] = f[1];
            record[2] = f[4];
            record[3 + (int) f[2]] = f[3];
            if (++record[record.length - 1] == Sensors.NAMES.length) {
                states.remove((long) f[0]);
                emit.emit(row.with(RECORD, java.util.Arrays.copyOf(record, record.length - 1)));
            }
        }
    }

    /** Adds where the sensor is. */
    private static final class Annotate implements Operator {
        private static final long serialVersionUID = 1;
        private transient Map<Long, String> places;

        @Override
        public void open(int instance) {
            places = new HashMap<>();
            for (long sensor = 0; sensor < Sensors.COUNT; sensor++) {
                places.put(sensor, "district-" + sensor % 50 + ",street-" + sensor % 700 + ",model-" + sensor % 7);
            }
        }

        @Override
        public void process(Row row, Emit emit) {
            emit.emit(row.with(RECORD, places.get((long) row.fields[1]), row.fields));
        }
    }

    /**
     * Writes records to a buffer and emits the one that fills it, as an insertion of ten rows into a table
     * does.
     */
    private static final class Insert implements Operator {
        private static final long serialVersionUID = 1;
        private static final int BATCH = 10;
        private transient StringBuilder batch;
        private transient int count;

        @Override
        public void open(int instance) {
            batch = new StringBuilder();
        }

        @Override
        public void process(Row row, Emit emit) {
            batch.append(text(row));
            if (++count == BATCH) {
                CRC32 sum = new CRC32();
                sum.update(batch.toString().getBytes(StandardCharsets.UTF_8));
                batch.setLength(0);
                count = 0;
                emit.emit(row.with(RECORD, row.fields[0], sum.getValue()));
            }
        }
    }

    /** Columns to text. */
    private static final class ToText implements Operator {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            emit.emit(row.with(RECORD, text(row), row.fields[0]));
        }
    }

    /** Makes the bytes of a message for a broker, with a check sum. */
    private static final class Publish implements Operator {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            CRC32 sum = new CRC32();
            sum.update(row.text.getBytes(StandardCharsets.UTF_8));
            emit.emit(row.with(RECORD, row.fields[0], sum.getValue()));
        }
    }

    private static String text(Row row) {
        StringBuilder text = new StringBuilder("{\"e\":[");
        for (int which = 0; which < Sensors.NAMES.length; which++) {
            text.append("{\"n\":\"").append(Sensors.NAMES[which]).append("\",\"v\":").append(row.fields[3 + which])
                    .append("},");
        }
        return text.append("{\"n\":\"place\",\"v\":\"").append(row.text).append("\"}],\"bt\":").append(row.fields[2])
                .append("}\n").toString();
    }
}
