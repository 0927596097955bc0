//go:build !linux

package runner

// bestEngine is the engine for this system. Pacing by kqueue or event ports
// has not been built and checked, so no latency below its lateness is claimed.
var bestEngine = runPortable

// realtimeShare is of Linux: nothing here asks for real-time priority.
func realtimeShare() float64 { return 1 }

// takeTurns is of Linux as well.
func takeTurns() (string, error) { return "", nil }
