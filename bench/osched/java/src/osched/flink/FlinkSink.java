package osched.flink;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import osched.core.Latencies;
import osched.core.Meter;
import osched.core.Row;

/** Measures the results. */
final class FlinkSink implements Sink<Row> {
    private static final long serialVersionUID = 1;

    private final String name;

    FlinkSink(String name) {
        this.name = name;
    }

    @Override
    public SinkWriter<Row> createWriter(WriterInitContext context) {
        Meter own = Meter.of(name, false);
        Latencies latencies = Latencies.ofSink();
        Meter.opened();
        return new SinkWriter<>() {
            @Override
            public void write(Row row, Context ignored) {
                own.begin(row);
                latencies.record(row);
                own.done();
            }

            @Override
            public void flush(boolean endOfInput) {}

            @Override
            public void close() {}
        };
    }
}
