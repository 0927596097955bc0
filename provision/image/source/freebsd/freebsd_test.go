package freebsd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/source/sourcetest"
)

const file = "stands for base.txz"

// manifest has the form that release/scripts/make-manifest.sh writes.
func manifest() string {
	sum := sha256.Sum256([]byte(file))
	return "base-dbg.txz\t" + strings.Repeat("1", 64) + "\t1617\tbase_dbg\t\"Base system (Debugging)\"\toff\n" +
		"base.txz\t" + hex.EncodeToString(sum[:]) + "\t29904\tbase\t\"Base system (MANDATORY)\"\ton\n" +
		"kernel.txz\t" + strings.Repeat("2", 64) + "\t886\tkernel\t\"Kernel (MANDATORY)\"\ton\n"
}

func Test(t *testing.T) {
	sum := sha256.Sum256([]byte(file))
	const path = "/releases/amd64/15.0-RELEASE"
	sourcetest.Run(t, sourcetest.Case{Source: Source{}, Path: path,
		Documents: map[string]string{path + "/MANIFEST": manifest()}, Files: map[string]string{path + "/base.txz": file},
		Want: []source.Image{{ID: "freebsd-base:15.0-RELEASE", Name: "freebsd-base", Version: "15.0-RELEASE", OS: "freebsd",
			Arch: "amd64", Type: "tarball", Description: "FreeBSD 15.0-RELEASE, Base system (MANDATORY)",
			Files: []source.File{{Name: "base.txz", URL: "$SERVER" + path + "/base.txz",
				Sum: "sha256:" + hex.EncodeToString(sum[:])}}}},
		Wrong: []string{"https://download.freebsd.org/releases", "https://download.freebsd.org/releases/vax/15.0-RELEASE",
			"https://download.freebsd.org/releases/amd64/latest"}})
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "base.txz", "../base.txz\t" + strings.Repeat("1", 64) + "\t1\tbase\t\"x\"\ton",
		"base.txz\t11\t1\tbase\t\"x\"\ton", strings.Repeat(manifest(), 1000)} {
		sets, damaged, err := Parse([]byte(text))
		if !fault.Is(errors.Join(append(damaged, err)...), fault.Invalid) {
			t.Errorf("%.40q: %v, %v", text, sets, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(manifest()))
	f.Add([]byte("\t\t\t\t\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sets, damaged, err := Parse(b)
		if err := errors.Join(append(damaged, err)...); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
		for _, s := range sets {
			if !source.ValidFile(s.File) || !source.ValidSum("sha256:"+s.SHA256) || s.Name == "" {
				t.Errorf("%+v", s)
			}
		}
	})
}
