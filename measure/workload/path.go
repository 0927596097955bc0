package workload

// PathBlob is the blob of a Path.
const PathBlob = "path.json"

// PathSchema is the schema of a Path.
const PathSchema = "bakeoff/path/v1"

// Path is what the way between the load generator and an environment can
// carry: what the same generator reached against a responder there that does
// nothing but answer, measured before the first trial.
type Path struct {
	Schema string `json:"schema"`
	// PerSecond and BytesPerSecond are the most responses of the trial's size,
	// and bytes of them; 0 where it could not be measured, and Reason says why.
	PerSecond      float64 `json:"responses_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	Connections    int     `json:"connections"`
	// Workers is how many CPUs the server of the trials can use.
	Workers int `json:"workers"`
	// Utilisation is that of the generator meanwhile, 0 to 1.
	Utilisation float64 `json:"generator_utilisation"`
	Reason      string  `json:"reason,omitempty"`
}
