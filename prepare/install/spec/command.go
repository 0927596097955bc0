package spec

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/shell"
)

// Command splits the command of a reference to a secret into words as a shell does. What else a shell would do is an
// error: no shell runs. The result is nil for other references.
func Command(ref string) ([]string, error) {
	text, ok := strings.CutPrefix(ref, "command:")
	if !ok {
		return nil, nil
	}
	const value = "\x01" // of PWD, which Fields also looks up itself
	variable := false
	words, err := shell.Fields(text, func(name string) string {
		variable = variable || name != "IFS" && name != "PWD"
		if name == "PWD" {
			return value
		}
		return ""
	})
	switch {
	case err != nil:
		return nil, errors.New("only a shell understands the command")
	case variable || strings.Contains(strings.Join(words, ""), value):
		return nil, errors.New("only a shell replaces variables")
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("the command is empty")
	}
	return words, nil
}

// secret checks a reference to a secret.
func (c checker) secret(ref string, keys ...string) {
	c.want(ref, secret, "write prompt, file:PATH or command:ARGV; never the secret itself", keys...)
	if _, err := Command(ref); err != nil && secret.MatchString(ref) {
		c.Add(c.at(keys), "write a program with its arguments, or a script", "%s is not valid: %v", strings.Join(keys, "."),
			err)
	}
}
