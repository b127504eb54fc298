// The live document of all jobs.
import type { AllJobs } from "./docs";
import { Live } from "./live";

export const jobs = new Live<AllJobs>();
