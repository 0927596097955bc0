// Package probe reads the counters and facts of package base/facts from an operating
// system.
package probe
