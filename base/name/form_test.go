package name

import (
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	for _, c := range []struct {
		valid func(string) bool
		good  string
	}{
		{ValidDigest, "sha256:" + strings.Repeat("0af9", 16)},
		{ValidUUID, "0123abcd-4567-89ef-0123-456789abcdef"},
		{ValidMAC, "02:00:5e:ff:0a:9b"},
	} {
		if !c.valid(c.good) {
			t.Errorf("%s is refused", c.good)
		}
		for _, bad := range []string{"", c.good + "0", c.good[1:], strings.ToUpper(c.good), " " + c.good, c.good + "\n",
			c.good[:len(c.good)-1] + "g", c.good[:len(c.good)-1], c.good[:len(c.good)-1] + "-",
			strings.ReplaceAll(strings.ReplaceAll(c.good, ":", ""), "-", "")} {
			if c.valid(bad) {
				t.Errorf("%q is accepted", bad)
			}
		}
	}
}
