package workload

// PathBlob is the blob of a Path.
const PathBlob = "path.json"

// PathSchema is the schema of a Path.
const PathSchema = "bakeoff/path/v1"

// Path is what the network path between the load generator and an environment
// can carry: the throughput of the same generator against a responder there
// that only answers, measured before the first trial.
type Path struct {
	Schema string `json:"schema"`
	// PerSecond and BytesPerSecond are the maximum rate of responses of the
	// trial's size, and of their bytes; 0 if it could not be measured, for
	// the reason in Reason.
	PerSecond      float64 `json:"responses_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	Connections    int     `json:"connections"`
	// Workers is the number of CPUs that the server of the trials can use.
	Workers int `json:"workers"`
	// Utilisation is the generator's during the measurement, 0 to 1.
	Utilisation float64 `json:"generator_utilisation"`
	Reason      string  `json:"reason,omitempty"`
}
