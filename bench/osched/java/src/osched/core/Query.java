package osched.core;

import java.util.ArrayList;
import java.util.List;

/**
 * A query: a source, operators and sinks, with the edges between them. Both engines build their jobs from it.
 */
public final class Query {
    /** What a node does. */
    public enum Role {
        /** Emits the rows of a generator, as {@link Pace} says. */
        SOURCE,
        /** Runs an {@link Operator}. */
        OPERATOR,
        /** Measures what arrives, by {@link Latencies}. */
        SINK
    }

    /** A node. `operator` is null but for operators, `generator` but for sources. */
    public record Node(String name, Role role, Operator operator, Generator generator, int parallelism) {}

    /**
     * Rows that `from` emits at `output` go to `to`; with a key to the instance that it names, else to any.
     */
    public record Edge(Node from, int output, Node to, Key key) {}

    private final String name;
    private final List<Node> nodes = new ArrayList<>();
    private final List<Edge> edges = new ArrayList<>();

    /** A query without nodes. Its name begins the names of its nodes. */
    public Query(String name) {
        this.name = name;
    }

    /** The name: unique among the queries of a process. */
    public String name() {
        return name;
    }

    /** The nodes: an edge's target stands behind its origin. */
    public List<Node> nodes() {
        return nodes;
    }

    /** The edges that end at a node. */
    public List<Edge> into(Node node) {
        return edges.stream().filter(edge -> edge.to() == node).toList();
    }

    /** The names of the nodes to which each output of a node leads. */
    public String[][] targets(Node node) {
        var leaving = edges.stream().filter(edge -> edge.from() == node).toList();
        int outputs = leaving.stream().mapToInt(Edge::output).max().orElse(-1) + 1;
        String[][] targets = new String[outputs][];
        for (int output = 0; output < outputs; output++) {
            int wanted = output;
            targets[output] = leaving.stream().filter(edge -> edge.output() == wanted)
                    .map(edge -> edge.to().name()).toArray(String[]::new);
        }
        return targets;
    }

    /** Adds a source. */
    public Node source(Generator generator) {
        return add(new Node(name + "-source", Role.SOURCE, null, generator, 1));
    }

    /** Adds an operator with one instance. */
    public Node operator(String label, Operator operator) {
        return operator(label, 1, operator);
    }

    /** Adds an operator. */
    public Node operator(String label, int parallelism, Operator operator) {
        return add(new Node(name + "-" + label, Role.OPERATOR, operator, null, parallelism));
    }

    /** Adds a sink. */
    public Node sink() {
        return add(new Node(name + "-sink", Role.SINK, null, null, 1));
    }

    /** Adds an edge for rows of any key. */
    public void edge(Node from, int output, Node to) {
        edge(from, output, to, null);
    }

    /** Adds an edge. */
    public void edge(Node from, int output, Node to, Key key) {
        edges.add(new Edge(from, output, to, key));
    }

    /** Adds edges from the output 0 of each node to the next one. */
    public void chain(Node... path) {
        for (int at = 1; at < path.length; at++) {
            edge(path[at - 1], 0, path[at]);
        }
    }

    private Node add(Node node) {
        nodes.add(node);
        return node;
    }
}
