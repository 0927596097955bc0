//go:build !linux

package load

// bestEngine is the engine for this system. It has no pacing by kqueue or event
// ports, so it reports no latency below its lateness.
var bestEngine = runPortable

// realtimeShare is 1: nothing requests real-time priority on this system.
func realtimeShare() float64 { return 1 }

// takeTurns does nothing on this system.
func takeTurns() (string, error) { return "", nil }
