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
		{Archive: "slow.txtar", File: "slow.txt", Old: `0.000643s      9.8`,
			New:  `0.000643s      9.7`,
			Want: `the rate of rsa 7680 bits sign is 9.7 in the file, which contradicts the time of an operation: 9.80392.`},
		{Archive: "slow.txtar", File: "slow.txt", Old: `0.006682s      1.5`,
			New:  `0.006682s      0.0`,
			Want: `the rate of rsa 15360 bits sign is 0 in the file`},
	})
}
