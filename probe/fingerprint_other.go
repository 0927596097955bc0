package probe

// ReadFingerprint says what this system is.
func ReadFingerprint(volumes []string) Fingerprint { return newCollector().f }
