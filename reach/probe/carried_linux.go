package probe

import "bakeoff/base/facts"

// readInterfaces reads what the interfaces have carried.
func readInterfaces() []facts.Interface { return parseInterfaces(readText("/proc/net/dev")) }
