package osched.workload;

import java.io.PrintStream;
import java.util.List;
import osched.core.Control;
import osched.core.Options;
import osched.core.Pace;
import osched.core.Query;

/** Lets an engine run a workload. */
public final class Runner {
    private Runner() {}

    /** Starts an engine that runs some queries. */
    @FunctionalInterface
    public interface Engine {
        /** Returns when all queries have been submitted. */
        void start(Options options, List<Query> queries) throws Exception;
    }

    /** Starts what the command line says, and obeys the commands on standard input. */
    public static void run(String[] args, Engine engine) throws Exception {
        PrintStream answers = Control.answers();
        Options options = new Options(args);
        List<Query> queries = Workloads.of(options);
        Workloads.calibrate(options);
        Pace.sources(queries.size());
        engine.start(options, queries);
        Control.obey(answers, queries);
    }
}
