package osched.flink;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import osched.core.Generator;
import osched.core.Meter;
import osched.core.Pace;
import osched.core.Row;

/** A source whose rows come as {@link Pace} says. It has no splits: each instance generates. */
final class FlinkSource implements Source<Row, FlinkSource.NoSplit, Integer> {
    private static final long serialVersionUID = 1;
    /** A new rate is noticed so soon. */
    private static final long LONGEST_WAIT_NS = 20_000_000;

    private final String name;
    private final long seed;
    private final Generator generator;
    private final String[][] targets;

    FlinkSource(String name, long seed, Generator generator, String[][] targets) {
        this.name = name;
        this.seed = seed;
        this.generator = generator;
        this.targets = targets;
    }

    /** Never made. */
    record NoSplit() implements SourceSplit {
        @Override
        public String splitId() {
            return "";
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Row, NoSplit> createReader(SourceReaderContext context) {
        return new Reader();
    }

    private final class Reader implements SourceReader<Row, NoSplit> {
        private final Pace pace = Pace.of(name, seed, generator);
        private final Meter own = Meter.of(name, true);
        private final Meter[][] behind = Meter.of(targets);

        @Override
        public void start() {
            Meter.opened();
        }

        @Override
        public InputStatus pollNext(ReaderOutput<Row> output) {
            Row row = pace.poll();
            if (row == null) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            Meter.put(behind[0]);
            output.collect(row);
            own.done();
            return pace.leftNs() <= 0 ? InputStatus.MORE_AVAILABLE : InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            long left = Math.min(pace.leftNs(), LONGEST_WAIT_NS);
            if (left <= 0) {
                return CompletableFuture.completedFuture(null);
            }
            // The JDK's timer completes the future; the task's own thread goes on with it.
            return new CompletableFuture<Void>().completeOnTimeout(null, left, TimeUnit.NANOSECONDS);
        }

        @Override
        public List<NoSplit> snapshotState(long checkpoint) {
            return List.of();
        }

        @Override
        public void addSplits(List<NoSplit> splits) {}

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }

    @Override
    public SplitEnumerator<NoSplit, Integer> createEnumerator(SplitEnumeratorContext<NoSplit> context) {
        return new Enumerator();
    }

    @Override
    public SplitEnumerator<NoSplit, Integer> restoreEnumerator(SplitEnumeratorContext<NoSplit> context, Integer state) {
        return new Enumerator();
    }

    private static final class Enumerator implements SplitEnumerator<NoSplit, Integer> {
        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<NoSplit> splits, int subtask) {}

        @Override
        public void addReader(int subtask) {}

        @Override
        public Integer snapshotState(long checkpoint) {
            return 0;
        }

        @Override
        public void close() {}
    }

    @Override
    public SimpleVersionedSerializer<NoSplit> getSplitSerializer() {
        return new Nothing<>(new NoSplit());
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new Nothing<>(0);
    }

    /** Writes nothing, and reads a constant. */
    private record Nothing<T>(T value) implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T ignored) {
            return new byte[0];
        }

        @Override
        public T deserialize(int version, byte[] ignored) {
            return value;
        }
    }
}
