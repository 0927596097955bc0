package openssl

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A time that contradicts the operations per second beside it gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "rsa.txtar", File: "rsa.txt", Old: `0.000163s    372.0`,
			New:  `0.000163s    572.0`,
			Want: `the time of rsa 2048 bits sign is 0.002688 in the file`},
		{Archive: "rsa.txtar", File: "rsa.txt", Old: `0.0002s   4326.7`,
			New:  `0.0002s   14326.7`,
			Want: `X25519`},
	})
}
