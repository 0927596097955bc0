package workload

import "bakeoff/base/param"

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

// Claim is how long a program of others says that it took, beside what the
// system says of the same program. Seconds.
type Claim struct {
	Seconds    float64 // what it says
	Elapsed    float64 // what passed
	CPUSeconds float64 // what it and its children spent
}

// Claimant is a Workload whose program says how long it took. ClaimOf is pure;
// ok is false where the output does not say.
type Claimant interface {
	ClaimOf(raw Raw, p param.Values) (c Claim, ok bool)
}
