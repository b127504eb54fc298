// Queries for an empty editor. They need nothing outside: the rows are generated.

export interface Example {
  name: string;
  text: string;
}

const ORDERS = `CREATE TABLE orders (
  order_id BIGINT,
  customer INT,
  price    DECIMAL(8, 2),
  ts       TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '50',
  'fields.order_id.min' = '1000000',
  'fields.order_id.max' = '9999999',
  'fields.customer.min' = '1',
  'fields.customer.max' = '20',
  'fields.price.min' = '1',
  'fields.price.max' = '500'
);
`;

export const EXAMPLES: Example[] = [
  {
    name: "Rows as they come",
    text: `-- Orders of more than 400, as they come.
${ORDERS}
SELECT order_id, customer, price, ts
FROM orders
WHERE price > 400;
`,
  },
  {
    name: "Totals of each window",
    text: `-- Orders and turnover of each customer, for every two seconds of event time. A window's rows come when it ends.
${ORDERS}
SELECT customer, window_start, window_end, COUNT(*) AS orders, SUM(price) AS turnover
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' SECOND))
GROUP BY customer, window_start, window_end;
`,
  },
  {
    name: "Totals that are updated",
    text: `-- Orders and turnover of each customer so far: each order changes a row.
${ORDERS}
SELECT customer, COUNT(*) AS orders, SUM(price) AS turnover, MAX(price) AS largest
FROM orders
GROUP BY customer;
`,
  },
];
