// Command bakeoff-agent is the program on the target: it runs native
// workloads, wraps any command with counters, reads the fingerprint, and is
// init in a guest that has nothing else.
package main

import (
	"os"

	_ "bakeoff/cmd/bakeoff-agent/early"
	"bakeoff/measure/workload/loops"
	"bakeoff/reach/agent"
)

func main() {
	os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, loops.All()))
}
