package probe

import "runtime"

// collector gathers facts, and the reasons of those that cannot be had.
type collector struct{ f Fingerprint }

func newCollector() *collector {
	c := &collector{Fingerprint{
		Schema:      FingerprintSchema,
		Facts:       map[string]string{},
		Unavailable: map[string]string{},
	}}
	c.set("arch", runtime.GOARCH, "")
	c.set("system", runtime.GOOS, "")
	return c
}

// set records a fact, or why there is none when value is empty.
func (c *collector) set(name, value, reason string) {
	if value != "" {
		c.f.Facts[name] = value
		return
	}
	c.f.Unavailable[name] = reason
}
