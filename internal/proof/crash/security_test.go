package crash_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

const kafkaPassword = "correct-horse-battery"

// kafkaCA signs certificates for one test.
type kafkaCA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func newKafkaCA(t *testing.T, name string) kafkaCA {
	t.Helper()
	a := kafkaCA{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, key := sign(t, template, template, nil)
	var err error
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key, a.file = key, filepath.Join(t.TempDir(), name+".pem")
	write(t, a.file, block("CERTIFICATE", der))
	return a
}

// sign makes a key and the certificate of template for it; without a key of its parent it signs itself.
func sign(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue writes the certificate and the key of a host or a client.
func (a kafkaCA) issue(t *testing.T, certFile, keyFile string) (certificate, key []byte) {
	t.Helper()
	der, private := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "billing"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, a.key)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8)
	write(t, certFile, certificate)
	write(t, keyFile, key)
	return certificate, key
}

// securedKafka has a listener that wants passwords and one that wants certificates.
func securedKafka(t *testing.T, ca kafkaCA) *testkit.ApacheKafka {
	t.Helper()
	dir := t.TempDir()
	store := filepath.Join(dir, "keystore.pem")
	certificate, key := ca.issue(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	write(t, store, bytes.Join([][]byte{key, certificate}, nil))
	return testkit.NewApacheKafka(t, testkit.ApacheKafkaOptions{
		Listeners: map[string]string{"PASSWORDS": "SASL_SSL", "CERTIFICATES": "SSL"},
		Scram: []string{
			"SCRAM-SHA-256=[name=scrammed,password=" + kafkaPassword + "]", "SCRAM-SHA-512=[name=scrammed,password=" + kafkaPassword + "]",
		},
		Properties: map[string]string{
			"sasl.enabled.mechanisms":                                "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
			"listener.name.passwords.plain.sasl.jaas.config":         `org.apache.kafka.common.security.plain.PlainLoginModule required user_plain="` + kafkaPassword + `";`,
			"listener.name.passwords.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
			"listener.name.passwords.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
			"ssl.keystore.type":                                      "PEM",
			"ssl.keystore.location":                                  store,
			"ssl.truststore.type":                                    "PEM",
			"ssl.truststore.location":                                ca.file,
			"listener.name.certificates.ssl.client.auth":             "required",
		},
	})
}

// refusedBroker checks what a process says that the broker does not let in: once, why, without a secret, and it waits.
func (r *rig) refusedBroker(t *testing.T, p *testkit.Process, secret string, causes ...string) {
	t.Helper()
	r.await(t, "the cause is said", func() bool {
		for _, cause := range causes {
			if logged(p, cause) > 0 {
				return true
			}
		}
		return false
	})
	before := len(p.Lines())
	pass(t, 3*time.Second) // without a loop of restarts, or a line for every try
	if more := len(p.Lines()) - before; more > 3 {
		t.Errorf("%d more lines in 3 seconds: %v", more, p.Lines()[before:])
	}
	if logged(p, secret) > 0 {
		t.Error("the password is in the log")
	}
	if status, body := r.get(t, p, "/livez"); status != 200 {
		t.Errorf("/livez is %d: %s", status, body)
	}
	if r.accepted(t) != 0 {
		t.Error("it consumes all the same")
	}
}

func TestKafkaSecurityLetsInWhoMayAndNamesTheCauseToOthers(t *testing.T) {
	t.Parallel()
	ca, foreign := newKafkaCA(t, "brokers"), newKafkaCA(t, "foreign")
	kafka := securedKafka(t, ca)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	ca.issue(t, certFile, keyFile)
	password := func(mechanism, user, word string) []string {
		return []string{
			"BILLING_KAFKA_BROKERS=" + kafka.Address("PASSWORDS"), "BILLING_KAFKA_TLS=on", "BILLING_KAFKA_TLS_CA_FILE=" + ca.file,
			"BILLING_KAFKA_SASL_MECHANISM=" + mechanism, "BILLING_KAFKA_SASL_USERNAME=" + user, "BILLING_KAFKA_SASL_PASSWORD=" + word,
		}
	}
	certificate := func(caFile string, more ...string) []string {
		return append([]string{
			"BILLING_KAFKA_BROKERS=" + kafka.Address("CERTIFICATES"), "BILLING_KAFKA_TLS=on", "BILLING_KAFKA_TLS_CA_FILE=" + caFile,
		}, more...)
	}
	own := []string{"BILLING_KAFKA_TLS_CERT_FILE=" + certFile, "BILLING_KAFKA_TLS_KEY_FILE=" + keyFile}
	for name, tc := range map[string]struct {
		env     []string
		refused []string // the cause, in any of these words
	}{
		"PLAIN":                   {password("PLAIN", "plain", kafkaPassword), nil},
		"SCRAM-SHA-256":           {password("SCRAM-SHA-256", "scrammed", kafkaPassword), nil},
		"SCRAM-SHA-512":           {password("SCRAM-SHA-512", "scrammed", kafkaPassword), nil},
		"a client certificate":    {certificate(ca.file, own...), nil},
		"a wrong password, PLAIN": {password("PLAIN", "plain", "wrong-"+kafkaPassword), []string{"SASL Authentication Failed"}},
		"a wrong password, SCRAM": {password("SCRAM-SHA-512", "scrammed", "wrong-"+kafkaPassword), []string{"SASL Authentication Failed"}},
		"a foreign authority":     {certificate(foreign.file, own...), []string{"signed by unknown authority"}},
		"no client certificate":   {certificate(ca.file), []string{"certificate required", "bad certificate", "tls: "}},
		"TLS without a login":     {certificate(ca.file, "BILLING_KAFKA_BROKERS="+kafka.Address("PASSWORDS")), []string{"expect TLS or SASL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := assemble(t, kafka.Brokers(), paysim.Script{}, nil)
			r.produce(t, 5, time.Now())
			p := r.serve(t, tc.env...)
			if tc.refused != nil {
				r.refusedBroker(t, p, kafkaPassword, tc.refused...)
				stop(t, p)
				return
			}
			r.awaitSettled(t)
			r.audit(t)
			stop(t, p)
		})
	}
}

func TestAReplacedCertificateIsTakenWithoutARestart(t *testing.T) {
	t.Parallel()
	ca, foreign := newKafkaCA(t, "brokers"), newKafkaCA(t, "foreign")
	kafka := securedKafka(t, ca)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	foreign.issue(t, certFile, keyFile)
	r := assemble(t, kafka.Brokers(), paysim.Script{}, nil)
	r.produce(t, 5, time.Now())
	p := r.serve(t, "BILLING_KAFKA_BROKERS="+kafka.Address("CERTIFICATES"), "BILLING_KAFKA_TLS=on", "BILLING_KAFKA_TLS_CA_FILE="+ca.file,
		"BILLING_KAFKA_TLS_CERT_FILE="+certFile, "BILLING_KAFKA_TLS_KEY_FILE="+keyFile)
	r.await(t, "it waits", func() bool { return logged(p, "waiting for the brokers") > 0 })
	if text := fmt.Sprint(p.Lines()); strings.Contains(text, "joined the group") {
		t.Error("a foreign certificate was let in")
	}
	ca.issue(t, certFile, keyFile)
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}
