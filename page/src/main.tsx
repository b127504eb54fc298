import { render } from "preact";
import { takeTokenFromAddress } from "./api";
import { App, followRoute } from "./app";
import { followAddress } from "./route";

// Before anything else reads the address.
takeTokenFromAddress();
followAddress();
followRoute();
const page = document.getElementById("page");
if (page !== null) render(<App />, page);
