package osched.workload;

import java.util.BitSet;
import java.util.zip.Deflater;
import osched.core.Emit;
import osched.core.Key;
import osched.core.Keyed;
import osched.core.Operator;
import osched.core.Query;
import osched.core.Row;

/**
 * STATS of RIoTBench (Shukla, Chaturvedi, Simmhan, 2017): averages, a Kalman filter with a regression, and
 * distinct counts of what sensors observe, plotted and packed. A message causes 15 results, as in the paper
 * on Lachesis.
 */
final class Stats {
    /** Columns: sensor, which observation, value, which statistic (0 to 2). */
    static final int STATISTIC = 2;
    /** A chart: the columns are its points. */
    static final int CHART = 3;

    private static final int WINDOW = 10;
    /** Pixels of a chart from bottom to top. */
    private static final int HEIGHT = 100;

    private Stats() {}

    static Query query(String name, int parallelism) {
        Query query = new Query(name);
        Key sensor = row -> (long) row.fields[1];
        Query.Node source = query.source(new Sensors.Messages());
        Query.Node parse = query.operator("parse", new Sensors.Parse());
        Query.Node average = query.operator("average", parallelism, new Average());
        Query.Node kalman = query.operator("kalman", parallelism, new Kalman());
        Query.Node regression = query.operator("regression", parallelism, new Regression());
        Query.Node distinct = query.operator("distinct", parallelism, new Distinct());
        Query.Node group = query.operator("group", (row, emit) -> emit.emit(row.with(STATISTIC,
                row.fields[0] % Sensors.COUNT, row.fields[1], row.fields[2], row.fields[3])));
        Query.Node plot = query.operator("plot", new Plot());
        Query.Node zip = query.operator("zip", new Zip());
        Query.Node sink = query.sink();
        query.edge(source, 0, parse);
        for (Query.Node first : new Query.Node[] {average, kalman, distinct}) {
            query.edge(parse, 0, first, sensor);
        }
        query.edge(kalman, 0, regression, sensor);
        for (Query.Node last : new Query.Node[] {average, regression, distinct}) {
            query.edge(last, 0, group);
        }
        query.edge(group, 0, plot);
        query.edge(plot, 0, sink);
        query.edge(plot, 1, zip);
        query.edge(zip, 0, sink);
        return query;
    }

    private static Row statistic(Row observation, int which, double value) {
        return observation.with(STATISTIC, observation.fields[1], observation.fields[2], value, which);
    }

    /** The average of the last values. */
    private static final class Average extends Keyed<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            // The last place counts.
            double[] window = states.computeIfAbsent(Sensors.series(row), ignored -> new double[WINDOW + 1]);
            window[(int) (window[WINDOW]++ % WINDOW)] = row.fields[3];
            double sum = 0;
            for (int at = 0; at < WINDOW; at++) {
                sum += window[at];
            }
            emit.emit(statistic(row, 0, sum / Math.min(WINDOW, window[WINDOW])));
        }
    }

    /** A Kalman filter of one dimension. */
    private static final class Kalman extends Keyed<double[]> {
        private static final long serialVersionUID = 1;
        private static final double PROCESS_NOISE = 0.125;
        private static final double SENSOR_NOISE = 0.32;

        @Override
        public void process(Row row, Emit emit) {
            double[] state = states.computeIfAbsent(Sensors.series(row), ignored -> new double[] {0, 30});
            double error = state[1] + PROCESS_NOISE;
            double gain = error / (error + SENSOR_NOISE);
            state[0] += gain * (row.fields[3] - state[0]);
            state[1] = (1 - gain) * error;
            double[] fields = row.fields.clone();
            fields[3] = state[0];
            emit.emit(row.with(row.kind, fields));
        }
    }

    /** A straight line through the last values, and what it predicts for the next one. */
    private static final class Regression extends Keyed<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] window = states.computeIfAbsent(Sensors.series(row), ignored -> new double[WINDOW]);
            System.arraycopy(window, 1, window, 0, WINDOW - 1);
            window[WINDOW - 1] = row.fields[3];
            double sumX = 0;
            double sumY = 0;
            double sumXx = 0;
            double sumXy = 0;
            for (int x = 0; x < WINDOW; x++) {
                sumX += x;
                sumY += window[x];
                sumXx += x * x;
                sumXy += x * window[x];
            }
            double slope = (WINDOW * sumXy - sumX * sumY) / (WINDOW * sumXx - sumX * sumX);
            emit.emit(statistic(row, 1, (sumY - slope * sumX) / WINDOW + slope * WINDOW));
        }
    }

    /** How many different values there were, about: linear counting in a bitmap per observation. */
    private static final class Distinct extends Keyed<BitSet> {
        private static final long serialVersionUID = 1;
        private static final int BITS = 1 << 16;

        @Override
        public void process(Row row, Emit emit) {
            var bits = states.computeIfAbsent((long) row.fields[2], ignored -> new BitSet(BITS));
            bits.set((int) (DecayingBloom.mix((long) (row.fields[3] * 1_000)) & (BITS - 1)));
            int used = Math.min(bits.cardinality(), BITS - 1);
            emit.emit(statistic(row, 2, -BITS * Math.log(1 - used / (double) BITS)));
        }
    }

    /** Hands statistics on, and draws a chart of the last ones now and then. */
    private static final class Plot implements Operator {
        private static final long serialVersionUID = 1;
        private static final int POINTS = 100;
        private static final int WIDTH = 200;
        private transient double[] points;
        private transient int count;

        @Override
        public void open(int instance) {
            points = new double[POINTS];
        }

        @Override
        public void process(Row row, Emit emit) {
            emit.emit(0, row);
            points[count++] = row.fields[2];
            if (count == POINTS) {
                count = 0;
                emit.emit(1, row.with(CHART, draw()));
            }
        }

        /** A number per column of pixels: the height of the line there, smoothed over all points. */
        private double[] draw() {
            double[] picture = new double[WIDTH];
            for (int x = 0; x < WIDTH; x++) {
                double at = x * (POINTS - 1.0) / WIDTH;
                double sum = 0;
                double weights = 0;
                for (int point = 0; point < POINTS; point++) {
                    double weight = Math.exp(-(at - point) * (at - point) / 8);
                    sum += weight * points[point];
                    weights += weight;
                }
                picture[x] = Math.floorMod((long) (sum / weights), (long) HEIGHT);
            }
            return picture;
        }
    }

    /** Packs a chart. */
    private static final class Zip implements Operator {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            byte[] pixels = new byte[row.fields.length * HEIGHT];
            for (int x = 0; x < row.fields.length; x++) {
                pixels[x * HEIGHT + (int) row.fields[x]] = 1;
            }
            Deflater deflater = new Deflater();
            deflater.setInput(pixels);
            deflater.finish();
            int size = deflater.deflate(new byte[pixels.length + 64]);
            deflater.end();
            emit.emit(row.with(CHART, size));
        }
    }
}
