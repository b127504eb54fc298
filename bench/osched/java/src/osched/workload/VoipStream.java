package osched.workload;

import java.util.Arrays;
import java.util.SplittableRandom;
import osched.core.Emit;
import osched.core.Generator;
import osched.core.Key;
import osched.core.Keyed;
import osched.core.Operator;
import osched.core.Query;
import osched.core.Row;

/**
 * VS: VoipStream (DSPBench) in 15 nodes: finds telemarketers in call detail records by rates that decaying
 * Bloom filters keep.
 *
 * <p>Each call gets the rates of its caller; joins by the number of the call combine them to a score.
 * Simplified: calls are generated here, and each call gets a score, not only the established ones.
 */
final class VoipStream {
    /**
     * Columns: call, caller, callee, time in s, duration in s, established (1 or 0), first between the two (1
     * or 0).
     */
    static final int CALL = 0;
    /** The same columns; sent to where the callee is counted. */
    static final int RECEIVED = 1;
    /** Columns: call, caller, which value (0, 1, ...), value. */
    static final int VALUE = 2;
    /** Columns: call, caller, score. */
    static final int SCORE = 3;

    private static final int CELLS = 1 << 16;
    private static final double SHORT_S = 600;
    private static final double LONG_S = 14_400;

    private VoipStream() {}

    static Query query(String name, int parallelism) {
        Query query = new Query(name);
        Key caller = row -> (long) row.fields[1];
        Key callee = row -> (long) row.fields[2];
        Key call = row -> (long) row.fields[0];
        Query.Node source = query.source(new Calls());
        Query.Node parse = query.operator("parse", new Parse());
        Query.Node variation = query.operator("variation", parallelism, new Variation());
        query.edge(source, 0, parse);
        query.edge(parse, 0, variation, caller);
        // Rates of established and received calls and of calls to new numbers; over a longer time: calls, and
        // their time.
        Query.Node ecr = query.operator("ecr", parallelism, new Rate(0, SHORT_S, f -> f[5]));
        Query.Node rcr = query.operator("rcr", parallelism, new ReceivedRate());
        Query.Node encr = query.operator("encr", parallelism, new Rate(1, SHORT_S, f -> f[5] * f[6]));
        Query.Node ecr24 = query.operator("ecr24", parallelism, new Rate(1, LONG_S, f -> f[5]));
        Query.Node ct24 = query.operator("ct24", parallelism, new Rate(0, LONG_S, f -> f[5] * f[4]));
        Query.Node gacd = query.operator("gacd", new GlobalDuration());
        for (Query.Node rate : new Query.Node[] {ecr, rcr, encr, ecr24, ct24}) {
            query.edge(variation, 0, rate, caller);
        }
        query.edge(variation, 1, rcr, callee);
        query.edge(variation, 0, gacd);
        // Average duration of calls, those that were made against those received, and new numbers against
        // all.
        Query.Node acd = query.operator("acd", parallelism, new Join(3, 0, v -> v[0] / (v[1] + 1) / (v[2] + 1)));
        Query.Node fofir = query.operator("fofir", parallelism, new Join(2, 1, v -> v[0] / (v[1] + 1)));
        Query.Node url = query.operator("url", parallelism, new Join(2, 2, v -> v[1] / (v[0] + 1)));
        join(query, acd, call, ct24, ecr24, gacd);
        join(query, fofir, call, ecr, rcr);
        join(query, url, call, ecr, encr);
        Query.Node score = query.operator("score", parallelism,
                new Join(3, 0, v -> v[1] + 2 * v[2] - Math.min(1, v[0])));
        join(query, score, call, acd, fofir, url);
        Query.Node alert = query.operator("alert", parallelism, new Alert());
        query.edge(score, 0, alert, caller);
        query.edge(alert, 0, query.sink());
        return query;
    }

    private static void join(Query query, Query.Node join, Key key, Query.Node... inputs) {
        for (Query.Node input : inputs) {
            query.edge(input, 0, join, key);
        }
    }

    /** Records of calls as text. One person of a hundred calls strangers, often and shortly. */
    private static final class Calls implements Generator {
        private static final long serialVersionUID = 1;
        private static final int PERSONS = 10_000;
        private static final int FRIENDS = 20;
        private static final double CALLS_PER_SECOND = 50;

        @Override
        public Row next(long number, SplittableRandom random) {
            boolean marketer = random.nextInt(10) == 0;
            int caller = marketer ? random.nextInt(PERSONS / 100) * 100 : random.nextInt(PERSONS);
            int callee = marketer ? random.nextInt(PERSONS)
                    : (int) Math.floorMod(DecayingBloom.mix(caller * 31L + random.nextInt(FRIENDS)), (long) PERSONS);
            int duration = marketer ? random.nextInt(30) : 30 + random.nextInt(600);
            int established = random.nextInt(10) < (marketer ? 5 : 8) ? 1 : 0;
            String text = number + ",+49" + (1_000_000 + caller) + ",+49" + (1_000_000 + callee) + ","
                    + number / CALLS_PER_SECOND + "," + duration + "," + established;
            return new Row(CALL, text);
        }
    }

    /** Text to columns. */
    private static final class Parse implements Operator {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            String[] parts = row.text.split(",");
            double[] fields = new double[7];
            for (int column = 0; column < parts.length; column++) {
                fields[column] = Double.parseDouble(parts[column]);
            }
            emit.emit(row.with(CALL, fields));
        }
    }

    /** Says whether two numbers speak for the first time, as far as the filter remembers. */
    private static final class Variation implements Operator {
        private static final long serialVersionUID = 1;
        private transient DecayingBloom pairs;

        @Override
        public void open(int instance) {
            pairs = new DecayingBloom(CELLS * 4, LONG_S);
        }

        @Override
        public void process(Row row, Emit emit) {
            double[] fields = row.fields.clone();
            long pair = (long) fields[1] * 31 + (long) fields[2];
            fields[6] = pairs.count(pair, fields[3]) < 0.1 ? 1 : 0;
            pairs.add(pair, 1, fields[3]);
            emit.emit(0, row.with(CALL, fields));
            emit.emit(1, row.with(RECEIVED, fields));
        }
    }

    /** What a call adds to its caller's rate. */
    private interface Amount extends java.io.Serializable {
        double of(double[] call);
    }

    /** A rate per caller. */
    private static final class Rate implements Operator {
        private static final long serialVersionUID = 1;
        private final int which;
        private final double halfLife;
        private final Amount amount;
        private transient DecayingBloom rates;

        Rate(int which, double halfLife, Amount amount) {
            this.which = which;
            this.halfLife = halfLife;
            this.amount = amount;
        }

        @Override
        public void open(int instance) {
            rates = new DecayingBloom(CELLS, halfLife);
        }

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            double added = amount.of(f);
            if (added > 0) {
                rates.add((long) f[1], added, f[3]);
            }
            emit.emit(row.with(VALUE, f[0], f[1], which, rates.count((long) f[1], f[3])));
        }
    }

    /** How often a caller is called. */
    private static final class ReceivedRate implements Operator {
        private static final long serialVersionUID = 1;
        private transient DecayingBloom rates;

        @Override
        public void open(int instance) {
            rates = new DecayingBloom(CELLS, SHORT_S);
        }

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            if (row.kind == RECEIVED) {
                rates.add((long) f[2], f[5], f[3]);
            } else {
                emit.emit(row.with(VALUE, f[0], f[1], 1, rates.count((long) f[1], f[3])));
            }
        }
    }

    /** The average duration of all calls. */
    private static final class GlobalDuration implements Operator {
        private static final long serialVersionUID = 1;
        private transient double average;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            average += (f[4] - average) / 1_000;
            emit.emit(row.with(VALUE, f[0], f[1], 2, average));
        }
    }

    /** Combines the values of a call. */
    private interface Combine extends java.io.Serializable {
        double of(double[] values);
    }

    /** Waits for all values of a call. */
    private static final class Join extends Keyed<double[]> {
        private static final long serialVersionUID = 1;
        private final int inputs;
        private final int which;
        private final Combine combine;

        Join(int inputs, int which, Combine combine) {
            this.inputs = inputs;
            this.which = which;
            this.combine = combine;
        }

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            double[] values = states.computeIfAbsent((long) f[0], ignored -> {
                double[] none = new double[inputs];
                Arrays.fill(none, Double.NaN);
                return none;
            });
            values[(int) f[2]] = f[3];
            if (Arrays.stream(values).noneMatch(Double::isNaN)) {
                states.remove((long) f[0]);
                emit.emit(row.with(VALUE, f[0], f[1], which, combine.of(values)));
            }
        }
    }

    /** Smooths the score of each caller. */
    private static final class Alert extends Keyed<Double> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double score = states.merge((long) row.fields[1], row.fields[3], (old, now) -> 0.9 * old + 0.1 * now);
            emit.emit(row.with(SCORE, row.fields[0], row.fields[1], score));
        }
    }
}
