// Package hexsum computes SHA-256 as hexadecimal digits.
package hexsum

import (
	"crypto/sha256"
	"encoding/hex"
)

// Of returns the SHA-256 of b as 64 hexadecimal digits in lower case.
func Of[T string | []byte](b T) string {
	sum := sha256.Sum256([]byte(b))
	return hex.EncodeToString(sum[:])
}
