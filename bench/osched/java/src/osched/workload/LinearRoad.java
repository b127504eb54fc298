package osched.workload;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import osched.core.Emit;
import osched.core.Generator;
import osched.core.Key;
import osched.core.Keyed;
import osched.core.Operator;
import osched.core.Query;
import osched.core.Row;

/**
 * LR: Linear Road (Arasu et al., VLDB 2004) in nine operators: variable tolls by the speed and number of
 * cars, and by accidents.
 *
 * <p>Cars report every 30 s of simulated time; time passes as rows come. Simplified: cars are generated here
 * instead of by MITSIM, and answers about former days are left out.
 */
final class LinearRoad {
    /** Columns: time in s, car, speed, expressway, direction, segment, position. */
    static final int REPORT = 0;
    /** Columns: time in s, car. */
    static final int BALANCE_REQUEST = 1;
    /** Columns: time in s, car, expressway, direction, segment, position. */
    static final int STOPPED = 2;
    /** Columns: time in s, expressway, direction, segment. */
    static final int ACCIDENT = 3;
    /** Columns: minute, expressway, direction, segment, speed. */
    static final int CAR_SPEED = 4;
    /** The same columns. */
    static final int SEGMENT_SPEED = 5;
    /** Columns: minute, expressway, direction, segment, cars. */
    static final int COUNT = 6;
    /** Columns: time in s, car, toll. */
    static final int TOLL = 7;
    /** Columns: time in s, car, segment of the accident. */
    static final int WARNING = 8;
    /** Columns: time in s, car, sum of tolls. */
    static final int BALANCE = 9;

    private static final int SEGMENTS = 100;
    private static final int SEGMENT_FEET = 5_280;

    private LinearRoad() {}

    static Query query(String name, int parallelism) {
        Query query = new Query(name);
        Key car = row -> (long) row.fields[1];
        Key reportRoad = row -> (long) (row.fields[3] * 2 + row.fields[4]);
        Key road = row -> (long) (row.fields[1] * 2 + row.fields[2]);
        Query.Node source = query.source(new Cars());
        Query.Node dispatch = query.operator("dispatch", (row, emit) -> emit.emit(row.kind == REPORT ? 0 : 1, row));
        Query.Node stopped = query.operator("stopped", parallelism, new Stopped());
        Query.Node accident = query.operator("accident", new Accidents());
        Query.Node carSpeed = query.operator("carspeed", parallelism, new CarSpeed());
        Query.Node segmentSpeed = query.operator("segspeed", new SegmentSpeed());
        Query.Node count = query.operator("count", new CountCars());
        Query.Node toll = query.operator("toll", parallelism, new Tolls());
        Query.Node warn = query.operator("warn", new Warnings());
        Query.Node balance = query.operator("balance", parallelism, new Balances());
        Query.Node sink = query.sink();
        query.edge(source, 0, dispatch);
        query.edge(dispatch, 0, stopped, car);
        query.edge(dispatch, 0, carSpeed, car);
        query.edge(dispatch, 0, count);
        query.edge(dispatch, 0, toll, reportRoad);
        query.edge(dispatch, 0, warn);
        query.edge(dispatch, 1, balance, car);
        query.edge(stopped, 0, accident);
        query.edge(accident, 0, toll, road);
        query.edge(accident, 0, warn);
        query.edge(carSpeed, 0, segmentSpeed);
        query.edge(segmentSpeed, 0, toll, road);
        query.edge(count, 0, toll, road);
        query.edge(toll, 0, balance, car);
        query.edge(toll, 0, sink);
        query.edge(warn, 0, sink);
        query.edge(balance, 0, sink);
        return query;
    }

    private static long place(double expressway, double direction, double segment) {
        return ((long) expressway * 2 + (long) direction) * SEGMENTS + (long) segment;
    }

    /** Cars on two expressways. Each reports in turn; one row of a hundred asks for a balance instead. */
    private static final class Cars implements Generator {
        private static final long serialVersionUID = 1;
        private static final int CARS = 2_000;
        private static final int REPORT_S = 30;
        private static final double STOPS = 0.002;
        private static final int STOPS_FOR = 8;

        private final double[] position = new double[CARS];
        private final double[] speed = new double[CARS];
        private final int[] stopped = new int[CARS];
        private final boolean[] ready = new boolean[CARS];
        private long reports;
        private int lastStopped;

        @Override
        public Row next(long number, SplittableRandom random) {
            int car = (int) (reports % CARS);
            long time = reports / CARS * REPORT_S + (long) car * REPORT_S / CARS;
            if (random.nextInt(101) == 0) {
                return new Row(BALANCE_REQUEST, null, time, car);
            }
            reports++;
            move(car, random);
            int segment = (int) (position[car] / SEGMENT_FEET);
            return new Row(REPORT, null, time, car, speed[car], car % 2, car / 2 % 2, segment, position[car]);
        }

        private void move(int car, SplittableRandom random) {
            if (!ready[car]) {
                ready[car] = true;
                position[car] = random.nextDouble() * SEGMENTS * SEGMENT_FEET;
            }
            if (stopped[car] > 0) {
                stopped[car]--;
                speed[car] = 0;
                return;
            }
            if (random.nextDouble() < STOPS) {
                // Every second car stops where the last one did, if on the same road: an accident.
                if (car % 4 == lastStopped % 4 && stopped[lastStopped] > 4) {
                    position[car] = position[lastStopped];
                }
                stopped[car] = STOPS_FOR;
                lastStopped = car;
                speed[car] = 0;
                return;
            }
            // Miles per hour; every third segment is slow.
            double most = (int) (position[car] / SEGMENT_FEET) % 3 == 0 ? 35 : 70;
            speed[car] = most * (0.5 + random.nextDouble() / 2);
            position[car] = (position[car] + speed[car] * 5_280 / 3_600 * REPORT_S) % (SEGMENTS * SEGMENT_FEET);
        }
    }

    /** Emits a car that has reported the same position four times in a row. */
    private static final class Stopped extends Keyed<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            double[] last = states.computeIfAbsent((long) f[1], ignored -> new double[] {-1, 0});
            last[1] = last[0] == f[6] ? last[1] + 1 : 1;
            last[0] = f[6];
            if (last[1] >= 4) {
                emit.emit(row.with(STOPPED, f[0], f[1], f[3], f[4], f[5], f[6]));
            }
        }
    }

    /** Emits an accident when two cars stand at one position, at most once in a minute. */
    private static final class Accidents extends Keyed<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            long at = ((long) f[2] * 2 + (long) f[3]) << 32 | (long) f[5];
            double[] other = states.computeIfAbsent(at, ignored -> new double[] {f[1], f[0], -60});
            if (other[0] != f[1] && f[0] - other[1] < 60 && f[0] - other[2] >= 60) {
                other[2] = f[0];
                emit.emit(row.with(ACCIDENT, f[0], f[2], f[3], f[4]));
            }
            other[0] = f[1];
            other[1] = f[0];
            if (states.size() > 10_000) {
                states.values().removeIf(stand -> f[0] - stand[1] >= 60);
            }
        }
    }

    /** Emits the average speed of a car in a segment when its minute is over. */
    private static final class CarSpeed extends Keyed<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            double minute = Math.floor(f[0] / 60);
            double[] of = states.computeIfAbsent((long) f[1], ignored -> new double[] {minute, f[5], 0, 0});
            if (of[0] != minute || of[1] != f[5]) {
                emit.emit(row.with(CAR_SPEED, of[0], f[3], f[4], of[1], of[2] / of[3]));
                of[0] = minute;
                of[1] = f[5];
                of[2] = 0;
                of[3] = 0;
            }
            of[2] += f[2];
            of[3]++;
        }
    }

    /** Emits the average speed in a segment over the last five minutes when a minute is over. */
    private static final class SegmentSpeed extends Keyed<double[][]> {
        private static final long serialVersionUID = 1;
        private static final int MINUTES = 5;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            // Per minute, in a ring: the minute, the sum of speeds, how many.
            double[][] ring = states.computeIfAbsent(place(f[1], f[2], f[3]), ignored -> new double[MINUTES + 1][3]);
            double[] slot = ring[(int) (f[0] % (MINUTES + 1))];
            if (slot[0] != f[0]) {
                double sum = 0;
                double count = 0;
                for (double[] former : ring) {
                    if (former[2] > 0 && f[0] - former[0] <= MINUTES && former[0] < f[0]) {
                        sum += former[1];
                        count += former[2];
                    }
                }
                if (count > 0) {
                    emit.emit(row.with(SEGMENT_SPEED, f[0], f[1], f[2], f[3], sum / count));
                }
                slot[0] = f[0];
                slot[1] = 0;
                slot[2] = 0;
            }
            slot[1] += f[4];
            slot[2]++;
        }
    }

    /** The cars of a segment in a minute. */
    private static final class Minute {
        private double minute = -1;
        private Set<Long> cars = new HashSet<>();
    }

    /** Emits how many cars were in a segment when its minute is over. */
    private static final class CountCars extends Keyed<Minute> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            double minute = Math.floor(f[0] / 60);
            Minute of = states.computeIfAbsent(place(f[3], f[4], f[5]), ignored -> new Minute());
            if (of.minute != minute) {
                if (!of.cars.isEmpty()) {
                    emit.emit(row.with(COUNT, minute, f[3], f[4], f[5], of.cars.size()));
                }
                of.minute = minute;
                of.cars = new HashSet<>();
            }
            of.cars.add((long) f[1]);
        }
    }

    /** What an operator knows about accidents, and about the segment in which each car was seen last. */
    private static final class Road {
        private final Map<Long, Double> accidents = new HashMap<>();
        private final Map<Long, Double> segments = new HashMap<>();

        void add(double[] accident) {
            accidents.put(place(accident[1], accident[2], accident[3]), accident[0]);
        }

        /** Whether a report is the first one of its car in this segment. */
        boolean isEntered(double[] report) {
            Double former = segments.put((long) report[1], report[5]);
            return former == null || former != report[5];
        }

        /** The first of this and the next four segments that had an accident within two minutes; NaN if none had. */
        double accidentAhead(double[] report) {
            for (int ahead = 0; ahead <= 4; ahead++) {
                double segment = (report[5] + ahead) % SEGMENTS;
                Double time = accidents.get(place(report[3], report[4], segment));
                if (time != null && report[0] - time < 120) {
                    return segment;
                }
            }
            return Double.NaN;
        }
    }

    /**
     * Emits the toll of a car that comes into a segment: by speed, cars and accidents, as Linear Road defines
     * it.
     */
    private static final class Tolls implements Operator {
        private static final long serialVersionUID = 1;
        private static final double SLOW = 40;
        private static final double MANY = 3;
        private transient Map<Long, Double> speeds;
        private transient Map<Long, Double> counts;
        private transient Road road;

        @Override
        public void open(int instance) {
            speeds = new HashMap<>();
            counts = new HashMap<>();
            road = new Road();
        }

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            switch (row.kind) {
                case SEGMENT_SPEED -> speeds.put(place(f[1], f[2], f[3]), f[4]);
                case COUNT -> counts.put(place(f[1], f[2], f[3]), f[4]);
                case ACCIDENT -> road.add(f);
                default -> {
                    if (road.isEntered(f)) {
                        emit.emit(row.with(TOLL, f[0], f[1], toll(f)));
                    }
                }
            }
        }

        private double toll(double[] f) {
            long at = place(f[3], f[4], f[5]);
            double cars = counts.getOrDefault(at, 0.0);
            if (speeds.getOrDefault(at, SLOW) >= SLOW || cars <= MANY || !Double.isNaN(road.accidentAhead(f))) {
                return 0;
            }
            return 2 * (cars - MANY) * (cars - MANY);
        }
    }

    /** Warns a car when it comes within four segments before an accident. */
    private static final class Warnings implements Operator {
        private static final long serialVersionUID = 1;
        private transient Road road;

        @Override
        public void open(int instance) {
            road = new Road();
        }

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            if (row.kind == ACCIDENT) {
                road.add(f);
            } else if (road.isEntered(f)) {
                double segment = road.accidentAhead(f);
                if (!Double.isNaN(segment)) {
                    emit.emit(row.with(WARNING, f[0], f[1], segment));
                }
            }
        }
    }

    /** Sums the tolls of each car, and answers questions for the sum. */
    private static final class Balances extends Keyed<Double> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Row row, Emit emit) {
            double[] f = row.fields;
            if (row.kind == TOLL) {
                states.merge((long) f[1], f[2], Double::sum);
            } else {
                emit.emit(row.with(BALANCE, f[0], f[1], states.getOrDefault((long) f[1], 0.0)));
            }
        }
    }
}
