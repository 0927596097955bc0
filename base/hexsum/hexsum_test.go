package hexsum

import "testing"

// Source: FIPS 180-4, the example "abc".
func TestOf(t *testing.T) {
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if a, b := Of("abc"), Of([]byte("abc")); a != want || b != want {
		t.Errorf("%s, %s", a, b)
	}
}
