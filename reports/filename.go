package reports

import "strings"

// fileName turns names of locks and scenarios, joined by "-", into one that is safe
// as a file name and as an anchor on every system.
func fileName(parts ...string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.Join(parts, "-")) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.TrimRight(b.String(), "-")
	if name == "" {
		return "unnamed"
	}
	return name
}
