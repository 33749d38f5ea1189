/** What new connections are counted by, at the price of memory for every CPU and element. */
export type ServiceCounters = "off" | "services" | "endpoints";
