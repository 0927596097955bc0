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
	// Source names the reader of Text: a source of package measure/boot.
	Source string `json:"source"`
	Text   string `json:"text,omitempty"`
	// Error says why there is no Text.
	Error string `json:"error,omitempty"`
	// Clock ties the clock of the log to the system's monotonic clock; nil if they are
	// the same, or if nothing ties them.
	Clock *ClockPair `json:"clock,omitempty"`
}

// ClockPair says that a log's clock was LogNS while the monotonic clock was between
// AfterNS and BeforeNS.
type ClockPair struct {
	LogNS    int64 `json:"log_ns"`
	AfterNS  int64 `json:"after_ns"`
	BeforeNS int64 `json:"before_ns"`
}
