package openssl

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// Rates up to 10 kB/s have no k. One without a value costs no other value of its row.
func TestSlowRates(t *testing.T) {
	out, err := New().Read("x", []byte("type             16 bytes     64 bytes    256 bytes\n"+
		"rc5 cbc              0.00      9000.50    23456.78k\n"))
	if err != nil || len(out.Records) != 2 || out.LeftOut != 1 || out.Records[0].Series[0].Values[0] != 9000.5 ||
		out.Records[1].Series[0].Values[0] != 23456780 || out.Records[1].Labels[0].Value != "rc5 cbc" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Each report of a file has its own version.
func TestVersions(t *testing.T) {
	const table = "type             16 bytes\nsha256           11111.11k\n"
	out, err := New().Read("x", []byte("version: 3.0.15\n"+table+"version: 3.5.0\n"+table+"LibreSSL 4.0.0\n"+table))
	if err != nil || len(out.Records) != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	for i, want := range []string{"3.0.15", "3.5.0", "LibreSSL 4.0.0"} {
		if got := out.Records[i].Facts["version"]; got != want {
			t.Errorf("report %d has the version %q, want %q", i, got, want)
		}
	}
}

// A file with algorithms for keys only has no line about 1000s of bytes, and version
// 1.1.1 no line CPUINFO.
func TestRecognizesKeys(t *testing.T) {
	for _, text := range []string{
		"OpenSSL 1.1.1w  11 Sep 2023\noptions:bn(64,64) rc4(16x,int)\n",
		"                  sign    verify    sign/s verify/s\n",
		"                              op      op/s\n",
	} {
		if !New().Recognizes([]byte(text)) {
			t.Errorf("%q is not recognized", text)
		}
	}
}
