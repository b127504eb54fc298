import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.SplittableRandom;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;

/**
 * Runs a query of Nexmark in Flink and prints what it takes: seconds, and seconds of processor time of this process. The connector `nexmark`
 * generates events with the distributions of Anabranch's connector of this name, and takes the same options.
 */
public class Nexmark {
    /** Counts a character in a text, as the benchmark's function does. */
    public static class CountChar extends ScalarFunction {
        public long eval(String text, String character) {
            long count = 0;
            for (int i = 0; i < text.length(); i++) {
                if (text.charAt(i) == character.charAt(0)) {
                    count++;
                }
            }
            return count;
        }
    }

    /** Pairs of runs are measured until this time is over, but so many at most. */
    private static final long ENOUGH_NS = 15_000_000_000L;
    private static final int MOST_PAIRS = 5;

    /**
     * FILE PARALLELISM STATE_BACKEND EVENTS RATE. After a run to warm up, pairs are measured, of which one run has a quarter of the events: their
     * difference is the cost of three quarters, without what a job takes to start and to end. Its median is printed. With `memory` as a further argument it runs once, and
     * prints the most megabytes of the heap that were in use after a collection, less those before.
     */
    public static void main(String[] args) throws Exception {
        long events = Long.parseLong(args[3]);
        if (args.length > 5 && args[5].equals("memory")) {
            long before = usedAfterCollection();
            var most = new java.util.concurrent.atomic.AtomicLong();
            var looks = new Thread(() -> {
                while (true) {
                    most.accumulateAndGet(usedAfterCollection() - before, Math::max);
                    java.util.concurrent.locks.LockSupport.parkNanos(2_000_000_000L);
                }
            });
            looks.setDaemon(true);
            looks.start();
            run(Files.readString(Path.of(args[0])), args[1], args[2], args[3], args[4]);
            System.out.println(most.get() / 1_000_000);
            System.exit(0);
        }
        measured(args, events);
        var seconds = new java.util.ArrayList<Double>();
        var used = new java.util.ArrayList<Double>();
        long end = System.nanoTime() + ENOUGH_NS;
        do {
            double[] few = measured(args, events / 4);
            double[] all = measured(args, events);
            seconds.add(all[0] - few[0]);
            used.add(all[1] - few[1]);
        } while (seconds.size() < MOST_PAIRS && System.nanoTime() < end);
        System.out.printf("%.3f %.3f%n", median(seconds), median(used));
        System.exit(0);
    }

    private static double median(java.util.List<Double> values) {
        java.util.Collections.sort(values);
        int middle = values.size() / 2;
        return values.size() % 2 == 1 ? values.get(middle) : (values.get(middle - 1) + values.get(middle)) / 2;
    }

    private static long usedAfterCollection() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /** Seconds, and seconds of processor time of this process. */
    private static double[] measured(String[] args, long events) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        System.gc();
        long cpu = system.getProcessCpuTime();
        long begin = System.nanoTime();
        run(Files.readString(Path.of(args[0])), args[1], args[2], Long.toString(events), args[4]);
        return new double[] {(System.nanoTime() - begin) / 1e9, (system.getProcessCpuTime() - cpu) / 1e9};
    }

    private static void run(String script, String parallelism, String backend, String events, String rate) throws Exception {
        Configuration set = new Configuration();
        set.setString("parallelism.default", parallelism);
        set.setString("state.backend.type", backend);
        set.setString("taskmanager.memory.managed.size", "512m");
        set.setString("taskmanager.memory.network.max", "128m");
        set.setString("pipeline.object-reuse", "true");
        TableEnvironment flink = TableEnvironment.create(
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(set).build());
        flink.getConfig().set("table.local-time-zone", "UTC");
        flink.getConfig().set("table.exec.mini-batch.enabled", "true");
        flink.getConfig().set("table.exec.mini-batch.allow-latency", "2 s");
        flink.getConfig().set("table.exec.mini-batch.size", "50000");
        flink.getConfig().set("table.optimizer.distinct-agg.split.enabled", "true");
        flink.createTemporarySystemFunction("count_char", CountChar.class);
        for (String statement : script.replaceAll("--[^\n]*", "").split(";")) {
            String text = statement.strip()
                    .replaceAll("'events.num' = '\\d+'", "'events.num' = '" + events + "'")
                    .replaceAll("-event.rate' = '\\d+'", "-event.rate' = '" + rate + "'");
            if (text.isEmpty() || text.startsWith("CREATE FUNCTION")) {
                continue;
            }
            var result = flink.executeSql(text);
            if (text.startsWith("INSERT")) {
                result.await();
            }
        }
    }

    /** The events. */
    public static class Events implements GeneratorFunction<Long, RowData> {
        private static final long FIRST = 1000;
        private static final String[] FIRST_NAMES =
                "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter".split(",");
        private static final String[] LAST_NAMES = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris".split(",");
        private static final String[] CITIES =
                "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne".split(",");
        private static final String[] STATES = "AZ,CA,ID,OR,WA,WY".split(",");
        private static final String[] HOT = "Google,Facebook,Baidu,Apple".split(",");
        private static final int CHANNELS = 10_000;

        private final long rate;
        private final long persons;
        private final long auctions;
        private final long bids;
        private transient StringData[] channels;
        private transient StringData[] urls;
        private transient SplittableRandom random;

        Events(long rate, long persons, long auctions, long bids) {
            this.rate = rate;
            this.persons = persons;
            this.auctions = auctions;
            this.bids = bids;
        }

        @Override
        public void open(org.apache.flink.api.connector.source.SourceReaderContext context) {
            random = new SplittableRandom(context.getIndexOfSubtask());
            channels = new StringData[HOT.length + CHANNELS];
            urls = new StringData[channels.length];
            for (int channel = 0; channel < channels.length; channel++) {
                int number = channel - HOT.length;
                channels[channel] = StringData.fromString(number < 0 ? HOT[channel] : "channel-" + number);
                String url = "https://www.nexmark.com/" + letters(5) + "/" + letters(5) + "/" + letters(5) + "/item.htm?query=1";
                boolean named = number >= 0 && random.nextInt(10) > 0;
                urls[channel] = StringData.fromString(
                        named ? url + "&channel_id=" + (Integer.reverse(number) & 0x7fffffff) : url);
            }
        }

        @Override
        public RowData map(Long number) {
            long turn = persons + auctions + bids;
            long at = number % turn;
            TimestampData time = time(number);
            GenericRowData row = new GenericRowData(4);
            if (at < persons) {
                row.setField(0, 0);
                row.setField(1, person(number, time));
            } else if (at < persons + auctions) {
                row.setField(0, 1);
                row.setField(2, auction(number, time));
            } else {
                row.setField(0, 2);
                row.setField(3, bid(number, time));
            }
            return row;
        }

        private long timeMs(long number) {
            return 1_704_067_200_000L + number * 1000 / rate;
        }

        private TimestampData time(long number) {
            return TimestampData.fromEpochMillis(timeMs(number));
        }

        private long lastPerson(long number) {
            long turn = persons + auctions + bids;
            return number / turn * persons + Math.min(number % turn, persons - 1);
        }

        private long lastAuction(long number) {
            long turn = persons + auctions + bids;
            long begun = Math.min(Math.max(number % turn + 1 - persons, 0), auctions);
            return Math.max(number / turn * auctions + begun - 1, 0);
        }

        private long anyPerson(long number) {
            long all = lastPerson(number) + 1;
            long active = Math.min(all, 1000);
            return all - active + random.nextLong(active + 10);
        }

        private long anyAuction(long number) {
            long last = lastAuction(number);
            long first = Math.max(last - 100, 0);
            return first + random.nextLong(last - first + 11);
        }

        private long price() {
            return Math.round(Math.pow(10.0, random.nextDouble() * 6.0) * 100.0);
        }

        private String letters(int count) {
            byte[] text = new byte[count];
            for (int i = 0; i < count; ) {
                long drawn = random.nextLong() >>> 1;
                for (int part = 0; part < 13 && i < count; part++, i++, drawn /= 26) {
                    text[i] = (byte) ('a' + drawn % 26);
                }
            }
            return new String(text, java.nio.charset.StandardCharsets.ISO_8859_1);
        }

        private StringData text(int least, int most) {
            return StringData.fromString(letters(least + random.nextInt(most - least + 1)));
        }

        private StringData extra(int used, int wanted) {
            int missing = Math.max(wanted - used, 0);
            return text(missing - missing / 5, missing + missing / 5);
        }

        private StringData one(String[] of) {
            return StringData.fromString(of[random.nextInt(of.length)]);
        }

        private RowData person(long number, TimestampData time) {
            StringData name = StringData.fromString(
                    FIRST_NAMES[random.nextInt(FIRST_NAMES.length)] + " " + LAST_NAMES[random.nextInt(LAST_NAMES.length)]);
            StringData card = StringData.fromString(String.format("%04d %04d %04d %04d",
                    random.nextInt(10_000), random.nextInt(10_000), random.nextInt(10_000), random.nextInt(10_000)));
            return GenericRowData.of(FIRST + lastPerson(number), name, StringData.fromString(letters(7) + "@" + letters(5) + ".com"),
                    card, one(CITIES), one(STATES), time, extra(80, 200));
        }

        private RowData auction(long number, TimestampData time) {
            long seller = random.nextInt(4) > 0 ? lastPerson(number) / 100 * 100 : anyPerson(number);
            long initial = price();
            long ahead = 100 * (persons + auctions + bids) / auctions;
            long horizon = Math.max(2 * (timeMs(number + ahead) - timeMs(number)), 1);
            long expires = timeMs(number) + 1 + random.nextLong(horizon);
            return GenericRowData.of(FIRST + lastAuction(number), text(3, 20), text(3, 100), initial, initial + price(), time,
                    TimestampData.fromEpochMillis(expires), FIRST + seller, 10L + random.nextInt(5), extra(120, 500));
        }

        private RowData bid(long number, TimestampData time) {
            long auction = random.nextInt(2) > 0 ? lastAuction(number) / 100 * 100 : anyAuction(number);
            long bidder = random.nextInt(4) > 0 ? lastPerson(number) / 100 * 100 + 1 : anyPerson(number);
            int channel = random.nextInt(2) > 0 ? random.nextInt(HOT.length) : HOT.length + random.nextInt(CHANNELS);
            return GenericRowData.of(
                    FIRST + auction, FIRST + bidder, price(), channels[channel], urls[channel], time, extra(32, 100));
        }
    }

    /** The connector. */
    public static class Factory implements DynamicTableSourceFactory {
        private static final ConfigOption<Long> EVENTS = number("events.num", 0);
        private static final ConfigOption<Long> RATE = number("first-event.rate", 10_000);
        private static final ConfigOption<Long> NEXT_RATE = number("next-event.rate", 10_000);
        private static final ConfigOption<Long> PERSONS = number("person.proportion", 1);
        private static final ConfigOption<Long> AUCTIONS = number("auction.proportion", 3);
        private static final ConfigOption<Long> BIDS = number("bid.proportion", 46);

        private static ConfigOption<Long> number(String name, long usual) {
            return ConfigOptions.key(name).longType().defaultValue(usual);
        }

        @Override
        public String factoryIdentifier() {
            return "nexmark";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of();
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of(EVENTS, RATE, NEXT_RATE, PERSONS, AUCTIONS, BIDS);
        }

        @Override
        public DynamicTableSource createDynamicTableSource(Context context) {
            var helper = FactoryUtil.createTableFactoryHelper(this, context);
            helper.validate();
            ReadableConfig options = helper.getOptions();
            RowType type = (RowType) context.getPhysicalRowDataType().getLogicalType();
            return new Table(type, options.get(EVENTS), new Events(
                    options.get(RATE), options.get(PERSONS), options.get(AUCTIONS), options.get(BIDS)));
        }
    }

    private static final class Table implements ScanTableSource {
        private final RowType type;
        private final long count;
        private final Events events;

        private Table(RowType type, long count, Events events) {
            this.type = type;
            this.count = count;
            this.events = events;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new DataGeneratorSource<>(events, count, InternalTypeInfo.of(type)));
        }

        @Override
        public DynamicTableSource copy() {
            return new Table(type, count, events);
        }

        @Override
        public String asSummaryString() {
            return "nexmark";
        }
    }
}
