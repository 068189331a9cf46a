class HealthCheckResponse:
    SERVING: int

class HealthCheckRequest:
    service: str
