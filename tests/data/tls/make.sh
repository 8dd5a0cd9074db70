#!/bin/sh
# Makes the certificates of the tests, good from 2020 to 2120. Needs OpenSSL; run it in this folder.
# They guard nothing: every key and password here is public.
set -eu
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
: >"$work/index"
cat >"$work/ca.cnf" <<EOF
[ca]
default_ca = tests
[tests]
database = $work/index
new_certs_dir = $work
rand_serial = yes
unique_subject = no
default_md = sha256
policy = anything
[anything]
commonName = supplied
EOF

sign() { # name, extensions, further arguments of openssl ca
    name=$1
    printf '%s\n' "$2" >"$work/$name.ext"
    shift 2
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$name-key.pem"
    openssl req -new -key "$name-key.pem" -subj "/CN=$name" -out "$work/$name.csr"
    openssl ca -batch -notext -config "$work/ca.cnf" -in "$work/$name.csr" -out "$name.pem" \
        -startdate 20200101000000Z -enddate "${end:-21200101000000Z}" -extfile "$work/$name.ext" "$@"
}
root() { sign "$1" "basicConstraints=critical,CA:TRUE" -selfsign -keyfile "$1-key.pem"; }
leaf() { sign "$1" "subjectAltName=$2" -cert ca.pem -keyfile ca-key.pem; }

root ca
root stranger-ca
leaf broker "IP:127.0.0.1,DNS:localhost"
leaf elsewhere "DNS:elsewhere.example"
leaf client "DNS:client"
end=20210101000000Z
leaf expired-broker "IP:127.0.0.1,DNS:localhost"
leaf expired-client "DNS:client"
unset end
sign foreign-client "subjectAltName=DNS:client" -cert stranger-ca.pem -keyfile stranger-ca-key.pem
openssl pkcs8 -topk8 -in client-key.pem -out client-key-encrypted.pem -v2 aes-256-cbc \
    -passout pass:key-password
rm ca-key.pem stranger-ca-key.pem
