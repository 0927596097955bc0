package facts

import "bakeoff/base/unit"

// Fingerprint describes an environment, so that differences can be found. An
// empty string or nil means "unavailable".
type Fingerprint struct {
	Schema string `json:"schema"` // bakeoff/fingerprint/v1
	// Facts holds name → value: kernel, cmdline, arch, cpu.model,
	// cpu.count, cpu.microcode, mitigation.<name>, clocksource, governor,
	// memory, fs.<mount>, libc, compiler, openssl, limit.<name>, os, and the
	// instruction sets in use, isa.go and isa.openssl.
	// Missing facts are named in Unavailable.
	Facts       map[string]string `json:"facts"`
	Unavailable map[string]string `json:"unavailable"` // name → reason
}

// FingerprintSchema is the schema of a Fingerprint.
const FingerprintSchema = "bakeoff/fingerprint/v1"

// Limits is what an environment may use, as enforced.
type Limits struct {
	CPUs   *int        `json:"cpus"`
	CPUSet []int       `json:"cpu_set"` // of the host
	Memory *unit.Bytes `json:"memory_bytes"`
	// Quota is how many CPUs' worth of time it may use; nil means no limit.
	Quota *float64 `json:"cpu_quota,omitempty"`
	// Read and Write limit the bytes per second from and to the disk of its
	// directory; nil means no limit.
	Read  *unit.Bytes `json:"read_bytes_per_second,omitempty"`
	Write *unit.Bytes `json:"write_bytes_per_second,omitempty"`
	// NotEnforced names requested limits that the technology cannot
	// enforce, with the reason; each is a confounder.
	NotEnforced map[string]string `json:"not_enforced,omitempty"`
}
