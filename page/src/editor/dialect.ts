// The words of the SQL that the engine reads, for colours. The server decides what is right.
import { StreamLanguage, type StringStream } from "@codemirror/language";

const KEYWORDS = `
  add after all alter and any array as asc at batch begin between both by cascade case cast catalog catalogs change changes
  coalesce collate column columns comment conflict connectors constraint create cross cube current current_date current_row
  current_time current_timestamp data database databases deduplicate define desc describe descriptor distinct do drop else end
  enforced error escape except excluding execute exists explain extract false fetch filter first following for from full
  function functions generated group grouping having if ignore ilike in including inner insert intersect interval into is job
  jobs join key lateral leading left like limit localtime localtimestamp match match_recognize matched measures merge metadata
  modify name natural next not nothing null nulls of offset on one only options or order ordinality outer over overlaps
  overwriting partition partitioned past pattern per plan preceding primary range rename replace rescale reset respect return
  returns right rollup row rows select set sets show similar skip some statement status stop subset symmetric system_time table
  tables temporary then timecol to trailing true try_cast unbounded union unique unnest unpivot update use user using values
  verbose view views virtual watermark watermarks when where window with within worker without zone
  year years quarter month months week day days hour hours minute minutes second seconds millisecond milliseconds`;

const TYPES = `
  bigint binary boolean bytes char character date dec decimal double float int integer map multiset numeric precision real
  smallint string text time timestamp timestamp_ltz tinyint varbinary varchar raw variant`;

const FUNCTIONS = `
  tumble hop cumulate session tumble_start tumble_end tumble_rowtime hop_start hop_end hop_rowtime session_start session_end
  session_rowtime window_start window_end window_time proctime count sum min max avg stddev stddev_pop var_samp var_pop
  first_value last_value listagg array_agg json_arrayagg json_objectagg percentile approx_count_distinct row_number rank
  dense_rank lag lead match_rowtime match_number classifier last prev nullif ifnull greatest least abs floor ceil round mod power
  rand concat concat_ws substring substr upper lower trim replace regexp_replace regexp_extract regexp_like split_index
  char_length position date_format to_timestamp to_timestamp_ltz to_date unix_timestamp from_unixtime timestampadd
  timestampdiff convert_tz json_value json_query json_exists cardinality element md5 sha256`;

const set = (list: string) => new Set(list.trim().split(/\s+/));
const [keywords, types, functions] = [set(KEYWORDS), set(TYPES), set(FUNCTIONS)];

/** What a line begins within: nothing, a comment, or a text in these quotes. */
interface State {
  within: "" | "/*" | "'" | '"' | "`";
}

function token(stream: StringStream, state: State): string | null {
  if (state.within !== "") return rest(stream, state);
  if (stream.eatSpace()) return null;
  if (stream.match("--")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match("/*")) {
    state.within = "/*";
    return rest(stream, state);
  }
  const quote = stream.peek();
  if (quote === "'" || quote === '"' || quote === "`") {
    stream.next();
    state.within = quote;
    return rest(stream, state);
  }
  if (stream.match(/^(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?/i)) return "number";
  const isField = stream.pos > 0 && stream.string[stream.pos - 1] === ".";
  const word = stream.match(/^[\p{L}_][\p{L}\p{N}_$]*/u);
  if (word === null || word === true || word === false) {
    stream.next();
    return null;
  }
  return isField ? null : kindOf(word[0].toLowerCase(), stream);
}

/** The rest of what spans lines: to its end, or to the end of the line. */
function rest(stream: StringStream, state: State): string | null {
  const kind = state.within === "/*" ? "comment" : state.within === "'" ? "string" : null;
  const end = state.within === "/*" ? "*/" : state.within;
  if (stream.skipTo(end)) {
    stream.match(end);
    state.within = "";
  } else stream.skipToEnd();
  return kind;
}

function kindOf(word: string, stream: StringStream): string | null {
  const isCall = stream.match(/^\s*\(/, false) !== null && stream.match(/^\s*\(/, false) !== false;
  if (isCall && functions.has(word)) return "variableName.standard";
  if (keywords.has(word)) return "keyword";
  return types.has(word) ? "typeName" : null;
}

export const dialect = StreamLanguage.define<State>({
  name: "sql",
  startState: () => ({ within: "" }),
  copyState: (state) => ({ ...state }),
  token,
  languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } } },
});
