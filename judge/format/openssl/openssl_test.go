package openssl

import (
	"fmt"
	"strings"
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

// What openssl has no name for in -mr has the index of its table.
func TestMachineLines(t *testing.T) {
	for text, want := range map[string]string{
		"+F8:0:2048:836.000000:0.001196\n":               "ffdh 2048 bits (0): op 836",
		"+F9:7:5e4:66666.5:5e4\n":                        "kem (7): keygen 50000, encaps 66666.5, decaps 50000",
		"+F10:12:10000.000000:3333.000000:9999.000000\n": "signature (12): keygen 10000, sign 3333, verify 9999",
		"+F6:0:253:Ed25519:6728.000000:2352.475248\n":    "EdDSA 253 bits (Ed25519): sign 6728, verify 2352.475248",
	} {
		out, err := New().Read("x", []byte(text))
		if err != nil || len(out.Records) != 1 || out.LeftOut > 0 || !New().Recognizes([]byte(text)) {
			t.Errorf("%q: %+v, %v", text, out, err)
			continue
		}
		var rates []string
		for _, s := range out.Records[0].Series {
			rates = append(rates, fmt.Sprint(s.Metric.Name, " ", s.Values[0]))
		}
		if got := out.Records[0].Labels[0].Value + ": " + strings.Join(rates, ", "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A row without a usable rate does not vanish without a warning.
func TestLeftOut(t *testing.T) {
	const table = "type             16 bytes     64 bytes\nsha256           11111.11k    22222.22k\n"
	const keys = "                  sign    verify    sign/s verify/s\n" +
		"rsa 2048 bits 0.000574s 0.000017s   1742.5  58471.6\n"
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "no number", Text: table + "rc5 cbc              nank         -infk\n",
			Want: `x:3: "rc5 cbc" with 16 bytes has no rate ("nank")`},
		{Name: "no time", Text: keys + "rsa 4096 bits nans 0.000017s   nan  58471.6\n",
			Want: `x:3: "rsa 4096 bits" has the time "nans", which is not a number of seconds`},
		{Name: "an algorithm that failed", Text: table + "rc5 cbc              0.00         0.00\n",
			Want: `x:3: "rc5 cbc" with 16 bytes has no rate ("0.00")`},
		{Name: "a comma", Text: table + "md5              88326,14k    99326,14k\n",
			Want: `x:3: "md5" with 16 bytes has no rate ("88326,14k")`},
		{Name: "a time with a comma", Text: keys + "rsa 4096 bits 0,002688s 0,000163s    372,0   6147,0\n",
			Want: `x:3: "rsa 4096 bits" has the time "0,002688s"`},
	})
}

// A column or an algorithm without a name is none of openssl.
func TestNoName(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{{Name: "no algorithm", Text: "+H:16:16\n+F:0::1.00:2.00\n",
		Want: "x:2: the line +F needs an index, a name and a rate"}, {Name: "no name", Text: "   sign verify /s verify/s\n" +
		"rsa 2048 bits 0.002688s 0.000163s 372.0 6147.0\n", Want: "x:1: the file has no results of openssl speed"}})
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

// OPENSSL_ia32cap switches instructions off, which changes the rates.
func TestFeaturesOfTheProcessor(t *testing.T) {
	const table = "type             16 bytes\nsha256           11111.11k\n"
	out, err := New().Read("x", []byte("version: 3.0.15\nCPUINFO: OPENSSL_ia32cap=0xf\n"+table+"version: 3.0.15\n"+table))
	if err != nil || len(out.Records) != 2 || out.Records[0].Facts["cpuinfo"] != "OPENSSL_ia32cap=0xf" ||
		out.Records[1].Facts["cpuinfo"] != "" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Version 1.0.2 writes bit where later versions write bits.
func TestBitsOfVersion102(t *testing.T) {
	const head = "                              sign    verify    sign/s verify/s\n"
	for _, bits := range []string{"bit", "bits"} {
		out, err := New().Read("x", []byte(head+" 256 "+bits+" ecdsa (nistp256)   0.0000s   0.0001s  21345.0   9345.0\n"))
		if err != nil || len(out.Records) == 0 || out.Records[0].Labels[0].Value != "256 bits ecdsa (nistp256)" {
			t.Errorf("%s: %+v, %v", bits, out, err)
		}
	}
}
