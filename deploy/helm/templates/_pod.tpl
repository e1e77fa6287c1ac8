{{/* What the pods of all components have in common. Context: root, component. */}}
{{- define "knowledge.podMetadata" -}}
labels:
  {{- include "knowledge.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "knowledge.podSettings" -}}
# The service needs nothing of the cluster. Links would set variables such as KB_PORT for a Service named "kb".
automountServiceAccountToken: false
enableServiceLinks: false
# The pod has an init, which reaps processes that parsed documents and lost their parent.
shareProcessNamespace: true
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $.root.Values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
volumes:
  # As a tmpfs: texts of uploads stay off the node's disk.
  - name: tmp
    emptyDir:
      medium: Memory
      sizeLimit: 512Mi
{{- with .root.Values.certificates }}
  - name: certificates
    configMap:
      name: {{ . }}
{{- end }}
{{- end }}

{{/* Also of the container. Context: root, component, resources. */}}
{{- define "knowledge.container" -}}
image: {{ include "knowledge.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  {{- toYaml .resources | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
{{- if .root.Values.certificates }}
  - name: certificates
    mountPath: /etc/knowledge/certificates
    readOnly: true
{{- end }}
env:
{{- if eq .component "migrate" }}
  {{- include "knowledge.fromSecret" (dict "secret" .root.Values.secrets.migration "name" "DATABASE_ADMIN_URL") | nindent 2 }}
{{- else }}
  - name: KB_METRICS_PORT
    value: {{ .root.Values.metrics.port | quote }}
  - name: KB_METRICS_HOST
    value: 0.0.0.0
{{- if eq .component "api" }}
  - name: KB_WORKER
    value: "off"
{{- end }}
{{- end }}
  {{- include "knowledge.fromSecret" (dict "secret" .root.Values.secrets.service "name" "DATABASE_URL") | nindent 2 }}
{{- $keys := list "DATABASE_DIRECT_URL" "DATABASE_REPLICA_URLS" "OPENAI_API_KEY" "GEMINI_API_KEY" "EMBEDDING_NEXT_API_KEY" }}
{{- if ne .component "migrate" }}{{ $keys = append $keys "KB_ENCRYPTION_KEY" }}{{ end }}
{{- if eq .component "api" }}{{ $keys = concat $keys (list "JWT_SECRET" "JWT_SECRETS" "KB_RERANKER_API_KEY" "KB_OIDC_CLIENT_SECRET") }}{{ end }}
{{- range $keys }}
  {{- include "knowledge.fromSecret" (dict "secret" $.root.Values.secrets.service "name" . "optional" true) | nindent 2 }}
{{- end }}
{{- range $name, $value := .root.Values.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "knowledge.fromSecret" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .name }}
      {{- if .optional }}
      optional: true
      {{- end }}
{{- end }}
