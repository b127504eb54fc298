package osched.workload;

import java.util.SplittableRandom;
import osched.core.Burn;
import osched.core.Emit;
import osched.core.Operator;
import osched.core.Query;
import osched.core.Row;

/**
 * SYN: a path of operators, each with a processor time of 20 to 200 us per row and a selectivity of 0.6 to
 * 1.4 (after section 6.4 of the paper on Lachesis). If blocking, one operator of ten sleeps up to 200 ms for
 * one row of a thousand.
 */
final class Syn {
    private static final double COST_US_MIN = 20;
    private static final double COST_US_MAX = 200;
    private static final double SELECTIVITY_MIN = 0.6;
    private static final double SELECTIVITY_MAX = 1.4;
    private static final double BLOCKING_OPERATORS = 0.1;
    private static final double BLOCKING_ROWS = 0.001;
    private static final int BLOCKED_MS_MAX = 200;

    private Syn() {}

    static Query query(String name, int operators, boolean blocking, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Query query = new Query(name);
        Query.Node before = query.source((number, drawn) -> new Row(0, null, number, drawn.nextDouble()));
        for (int number = 0; number < operators; number++) {
            double cost = COST_US_MIN + (COST_US_MAX - COST_US_MIN) * random.nextDouble();
            double selectivity = SELECTIVITY_MIN + (SELECTIVITY_MAX - SELECTIVITY_MIN) * random.nextDouble();
            // Drawn in any case, so that the blocking variant has the same costs.
            boolean blocks = random.nextDouble() < BLOCKING_OPERATORS;
            var operator = new Work(cost, selectivity, blocking && blocks, random.nextLong());
            Query.Node node = query.operator("o" + number, operator);
            query.edge(before, 0, node);
            before = node;
        }
        query.edge(before, 0, query.sink());
        return query;
    }

    /** Works, and emits rows as its selectivity says. */
    private static final class Work implements Operator {
        private static final long serialVersionUID = 1;

        private final double costUs;
        private final double selectivity;
        private final boolean blocks;
        private final long seed;
        private transient SplittableRandom random;
        private transient long burned;

        Work(double costUs, double selectivity, boolean blocks, long seed) {
            this.costUs = costUs;
            this.selectivity = selectivity;
            this.blocks = blocks;
            this.seed = seed;
        }

        @Override
        public void open(int instance) {
            random = new SplittableRandom(seed + instance);
        }

        @Override
        public void process(Row row, Emit emit) throws InterruptedException {
            burned = Burn.us(costUs, burned);
            if (blocks && random.nextDouble() < BLOCKING_ROWS) {
                Thread.sleep(random.nextInt(BLOCKED_MS_MAX + 1));
            }
            // 1.3: always one row, and a second one with a chance of 0.3.
            double left = selectivity;
            while (left > 0 && (left >= 1 || random.nextDouble() < left)) {
                emit.emit(row.with(row.kind, row.fields));
                left -= 1;
            }
        }
    }
}
