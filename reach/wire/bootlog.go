package wire

// BootLogSchema is that of BootLog.
const BootLogSchema = "bakeoff/boot-log/v1"

// MaxBootLog bounds the JSON text of a BootLog, in bytes.
const MaxBootLog = 48 << 20

// BootLog is the output of `bakeoff-agent boot-log`: what the system that the agent runs
// in recorded about its boot.
type BootLog struct {
	Schema string `json:"schema"`
	System string `json:"system"` // GOOS
	// Logs has an entry for each record that the system could have, also for those that
	// could not be read.
	Logs []SystemLog `json:"logs"`
}

// SystemLog is one record of a system.
type SystemLog struct {
	// Source names what Text is: linux, systemd, tslog, dmesg.
	Source string `json:"source"`
	Text   string `json:"text,omitempty"`
	// Error says why there is no Text.
	Error string `json:"error,omitempty"`
}
